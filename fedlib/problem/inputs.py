"""How stored samples become a network's input: bytes scaled to 0 ... 1, standardised if asked for, cropped and flipped
while training.

Statistics come from the samples that clients train on. A crop shifts an image by up to `crop` pixels in both
directions, as if it had a black border; then each image is mirrored with probability 1/2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

Standardise = Literal["channel", "feature"] | list | tuple | None  # or what to subtract and to divide by, per channel


def as_floats(x: torch.Tensor) -> torch.Tensor:
    """Bytes divided by 255, features as they are."""
    return x.to(torch.float32).div_(255) if x.dtype == torch.uint8 else x.to(torch.float32)


@dataclass(frozen=True, eq=False)
class Standard:
    """(x - mean) / deviation, for samples whose channels come last: (channels,), or one number for each pixel and
    channel."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean).div_(self.deviation)


def standard(x: torch.Tensor, standardise: Standardise) -> Standard | None:
    """The statistics of samples (n, height, width, channels) or (n, features); a constant feature keeps deviation
    one."""
    if standardise is None:
        return None
    if not isinstance(standardise, str):
        return _given(standardise, x.shape[-1])
    over = tuple(range(x.ndim - 1)) if standardise == "channel" and x.ndim > 2 else (0,)
    mean, deviation = _moments(x, over)
    return Standard(torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(deviation.astype(np.float32)))


def _moments(x: torch.Tensor, over: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation, in parts so that memory stays small."""

    def parts() -> Iterator[np.ndarray]:
        return (as_floats(part).double().numpy() for part in x.split(4096))

    count = np.prod([x.shape[axis] for axis in over])
    mean = np.asarray(sum(part.sum(axis=over) for part in parts()) / count)
    variance = sum(((part - mean) ** 2).sum(axis=over) for part in parts()) / count
    deviation = np.sqrt(variance)
    return mean, np.where(deviation > 1e-8, deviation, 1.0)


def _given(pair: Sequence, channels: int) -> Standard:
    try:
        mean, deviation = (torch.as_tensor(values, dtype=torch.float32).reshape(-1) for values in pair)
    except (TypeError, ValueError):
        mean = deviation = torch.zeros(0)
    fits = len(mean) == len(deviation) == channels and bool(torch.isfinite(mean).all())
    if not fits or not bool((torch.isfinite(deviation) & (deviation > 0)).all()):
        raise ValueError(
            f"standardise={pair!r} must be 'channel', 'feature' or [means, deviations] with one finite mean and one "
            f"positive deviation for each of the {channels} channels"
        )
    return Standard(mean, deviation)


@dataclass(frozen=True, eq=False)
class Augmentation:
    """Random crop and flip of images (height, width, channels)."""

    crop: int  # pixels
    flip: bool
    shape: tuple[int, int, int]
    fill: torch.Tensor  # what a border pixel is stored as, (channels,)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """How far down and right each of `count` samples is cropped, and whether it is mirrored: (count, 3)."""
        choices = np.array([2 * self.crop + 1, 2 * self.crop + 1, 2 if self.flip else 1])
        return (rng.random((count, 3)) * choices).astype(
            np.int64
        )  # sample by sample, so `count` changes no earlier draw


def augmentation(
    shape: tuple[int, ...], crop: int, flip: bool, dense: bool, scale: Standard | None
) -> Augmentation | None:
    """What `crop` and `flip` ask for; None where they ask for nothing. Dense networks store samples standardised."""
    if not crop and not flip:
        return None
    if len(shape) != 3:
        raise ValueError(f"crop={crop} and flip={flip} are for images, but a sample has the shape {shape}")
    if scale is not None and scale.mean.ndim != 1:
        raise ValueError("crop and flip move pixels about: standardise by 'channel' with them, not by 'feature'")
    height, width, channels = shape
    if crop >= min(height, width):
        raise ValueError(f"crop={crop} must be smaller than an image's side, {min(height, width)} pixels")
    black = torch.zeros(channels)
    fill = scale.apply(black) if dense and scale is not None else black
    return Augmentation(crop, flip, (height, width, channels), fill)
