"""A data set in memory, and the hashes that show whether two people have the same one."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

SAMPLES = ("x_train", "y_train", "x_test", "y_test")
WRITERS = ("writer_train", "writer_test")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Dataset:
    """Images uint8 (N x H x W, or N x H x W x 3) or features float32 (N x d); labels and writers int64.

    `writer_*` says who wrote each sample (in `handwriting`, which font), where a data set knows that; else None.
    `fingerprint` identifies the exact content.
    """

    name: str
    x_train: torch.Tensor
    y_train: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor
    classes: tuple[str, ...]
    writer_train: torch.Tensor | None
    writer_test: torch.Tensor | None
    fingerprint: str

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.x_train.shape[1:])
        return (
            f"Dataset({self.name}: {len(self.x_train):,} train + {len(self.x_test):,} test of {shape}, "
            f"{len(self.classes)} classes, fingerprint {self.fingerprint})"
        )


def sha256(array: np.ndarray) -> str:
    """SHA-256 of the array's bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def fingerprint(arrays: Arrays, hashes: Mapping[str, str], origin: str = "") -> str:
    """16 hex digits from the arrays' names, types, shapes and SHA-256 (`hashes`) and, for derived data, from a
    description of their source (`origin`)."""
    lines = [f"{name} {arrays[name].dtype} {arrays[name].shape} {hashes[name]}" for name in sorted(arrays)]
    return hashlib.sha256("\n".join([*lines, origin]).encode()).hexdigest()[:16]


def smallest_integers(values: np.ndarray) -> np.ndarray:
    """Labels and writers in the smallest unsigned type that holds them, so that equal values have equal bytes."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))), copy=False)


def from_arrays(name: str, arrays: Arrays, classes: tuple[str, ...], fingerprint: str) -> Dataset:
    """Wrap raw arrays as tensors; images and features share memory with the arrays."""

    def integers(key: str) -> torch.Tensor:
        return torch.from_numpy(arrays[key].astype(np.int64))

    return Dataset(
        name=name,
        x_train=torch.from_numpy(arrays["x_train"]),
        y_train=integers("y_train"),
        x_test=torch.from_numpy(arrays["x_test"]),
        y_test=integers("y_test"),
        classes=classes,
        writer_train=integers("writer_train") if "writer_train" in arrays else None,
        writer_test=integers("writer_test") if "writer_test" in arrays else None,
        fingerprint=fingerprint,
    )
