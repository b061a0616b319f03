"""Drop-in files `<name>.npz`: copies of known data sets, or anyone's own.

A drop-in holds x_train, y_train, x_test, y_test and, if known, writer_train and writer_test. Images are uint8, N x H x
W or N x H x W x 3; features float32, N x d. Labels are whole numbers 0..classes-1; `classes` may name them (an array of
strings).
"""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from fedlib import surroundings
from fedlib.data.dataset import SAMPLES, WRITERS, Arrays
from fedlib.data.errors import Damaged, InvalidDropIn
from fedlib.data.integrity import canonical, checked
from fedlib.data.known import Known

FORMAT = (
    "a NumPy .npz file with x_train, x_test (uint8 images N x H x W or N x H x W x 3, or float32 features N x d), "
    "y_train, y_test (whole numbers from 0) and, if known, writer_train, writer_test and classes (strings)"
)


def path(name: str) -> Path:
    """Where the drop-in of that name belongs."""
    return surroundings.data_folder() / f"{name}.npz"


def load(name: str, known: Known | None) -> tuple[Arrays, tuple[str, ...]]:
    """Arrays and class names of a drop-in, validated, and checked against the known hashes if there are any."""
    file = path(name)
    arrays = read(file)
    names = arrays.pop("classes", None)
    classes = known.classes if known else class_names(file, names, arrays)
    validate(file, arrays, len(classes))
    if known is None:
        return canonical(arrays), classes
    try:
        return checked(known, arrays), classes
    except Damaged as error:
        raise InvalidDropIn(
            f"{file} is damaged or not the data set of that name ({error}). Replace it, delete it to have the data "
            "fetched, or rename it to load it under a name of its own"
        ) from error


def read(file: Path) -> Arrays:
    """All arrays of the file; the zip format's own check sums reveal truncation."""
    try:
        with np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidDropIn(f"{file} cannot be read ({error}). Replace or delete it; it should be {FORMAT}") from error
    missing, odd = set(SAMPLES) - set(arrays), set(arrays) - {*SAMPLES, *WRITERS, "classes"}
    if missing or odd or len(set(WRITERS) & set(arrays)) == 1:
        raise InvalidDropIn(f"{file} holds arrays {sorted(arrays)}; it should be {FORMAT}")
    return arrays


def class_names(file: Path, names: np.ndarray | None, arrays: Arrays) -> tuple[str, ...]:
    """Class names as given, or the numbers 0..max as strings, of which none may then be missing in training."""
    if names is not None:
        if names.ndim != 1 or names.dtype.kind != "U":
            raise InvalidDropIn(f"{file}: classes must be a list of strings, not {names.dtype} {names.shape}")
        return tuple(str(name) for name in names)
    require_integers(file, "y_train", arrays["y_train"])
    present = np.unique(arrays["y_train"])
    if not np.array_equal(present, np.arange(len(present))):
        raise InvalidDropIn(
            f"{file}: labels of y_train must run from 0 without gaps, found {present[:20].tolist()}; "
            "number them anew, or name all classes in an array `classes`"
        )
    return tuple(str(label) for label in present)


def validate(file: Path, arrays: Arrays, classes: int) -> None:
    """Raise `InvalidDropIn` unless types, shapes and label ranges are as promised."""
    for part in ("train", "test"):
        samples = arrays[f"x_{part}"]
        require_samples(file, f"x_{part}", samples)
        for name in (f"y_{part}", f"writer_{part}"):
            if name in arrays:
                require_integers(file, name, arrays[name], len(samples))
        require_below(file, f"y_{part}", arrays[f"y_{part}"], classes)
    if arrays["x_train"].shape[1:] != arrays["x_test"].shape[1:] or arrays["x_train"].dtype != arrays["x_test"].dtype:
        raise InvalidDropIn(f"{file}: x_train and x_test differ in type or in the shape of a sample")


def require_samples(file: Path, name: str, samples: np.ndarray) -> None:
    """Images or features of a type the library knows, at least one, all finite."""
    images = samples.dtype == np.uint8 and (samples.ndim == 3 or (samples.ndim == 4 and samples.shape[3] == 3))
    features = samples.dtype == np.float32 and samples.ndim == 2
    if not (images or features) or 0 in samples.shape:
        raise InvalidDropIn(f"{file}: {name} is {samples.dtype} {samples.shape}; it should be in {FORMAT}")
    if features and not np.isfinite(samples).all():
        raise InvalidDropIn(f"{file}: {name} has values that are not finite")


def require_integers(file: Path, name: str, values: np.ndarray, length: int | None = None) -> None:
    """Whole numbers from 0, one per sample."""
    if values.dtype.kind not in "iu" or values.ndim != 1 or length not in (None, len(values)):
        raise InvalidDropIn(
            f"{file}: {name} is {values.dtype} {values.shape}; it should be one whole number per sample"
            + (f" ({length:,} of them)" if length is not None else "")
        )
    if len(values) and values.min() < 0:
        raise InvalidDropIn(f"{file}: {name} has negative values, the least is {values.min()}")


def require_below(file: Path, name: str, labels: np.ndarray, classes: int) -> None:
    """Labels below the number of classes."""
    if labels.max() >= classes:
        raise InvalidDropIn(f"{file}: {name} has label {labels.max()}, but labels run from 0 to {classes - 1}")
