"""One form for all copies of a data set, and the check that a copy is what its name promises."""

from collections.abc import Mapping

import numpy as np

from fedlib.data.dataset import Arrays, sha256, smallest_integers
from fedlib.data.errors import Damaged
from fedlib.data.formats import order_by_label_and_digest
from fedlib.data.known import Known


def canonical(arrays: Arrays, known: Known | None = None) -> Arrays:
    """Equal bytes for equal data: integers in their smallest type, samples in the known order, contiguous."""
    integers = {name: smallest_integers(array) for name, array in arrays.items() if not name.startswith("x_")}
    arrays = {name: np.ascontiguousarray(array) for name, array in (arrays | integers).items()}
    return in_known_order(arrays) if known is not None and known.unordered else arrays


def in_known_order(arrays: Arrays) -> Arrays:
    """Both parts sorted by (label, SHA-1 of the pixels)."""
    order = {part: order_by_label_and_digest(arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in ("train", "test")}
    return {name: array[order[name.split("_")[1]]] for name, array in arrays.items()}


def checked(known: Known, arrays: Arrays) -> Arrays:
    """The canonical arrays of a known data set; `Damaged` where bytes differ and no other version is legitimate."""
    for part in ("x_train", "x_test"):
        if arrays[part].shape[1:] != known.shape:
            raise Damaged(f"images of {part} are {arrays[part].shape[1:]}, not {known.shape}")
    arrays = canonical(arrays, known)
    difference = describe_difference(known, {array: sha256(values) for array, values in arrays.items()})
    if difference and not known.one_of_many:
        raise Damaged(difference)
    return arrays


def describe_difference(known: Known, hashes: Mapping[str, str]) -> str:
    """Empty if all known hashes agree, otherwise each that differs, with the expected one."""
    wrong = [name for name in known.hashes if hashes.get(name) != known.hashes[name]]
    return "; ".join(f"{name} has SHA-256 {hashes.get(name)}, expected {known.hashes[name]}" for name in wrong)
