"""How stored samples become a network's input: bytes scaled to 0 ... 1, standardised if asked for, cropped and flipped
while training.

Statistics come from the samples that clients train on. `crop` pads an image with a black border of `crop` pixels and
cuts out a random part of the original size, which shifts the image by up to `crop` pixels vertically and horizontally.
With `flip`, each image is then mirrored left to right with probability 1/2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

Standardise = Literal["channel", "feature"] | list | tuple | None  # or [means, deviations] per channel


def as_floats(x: torch.Tensor) -> torch.Tensor:
    """Bytes divided by 255, features as they are."""
    return x.to(torch.float32).div_(255) if x.dtype == torch.uint8 else x.to(torch.float32)


@dataclass(frozen=True, eq=False)
class Standard:
    """Standardisation, (x - mean) / deviation, of samples whose last axis is the channels.

    Both tensors have the shape (channels,), or that of a sample if every feature has its own mean and deviation.
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean).div_(self.deviation)


def standard(x: torch.Tensor, standardise: Standardise) -> Standard | None:
    """The standardisation of samples (n, height, width, channels) or (n, features), fitted to them or as given.

    "channel" pools all pixels of an image; with flat features it is the same as "feature". A deviation of zero, of a
    constant feature, is replaced by one.
    """
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
    fill: torch.Tensor  # value of a border pixel in stored samples, (channels,)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Crop and flip of `count` samples, (count, 3): the row and column of the crop's corner in the padded image,
        0 to 2 * crop (so `crop` is no shift), and 1 if the image is mirrored, else 0."""
        choices = np.array([2 * self.crop + 1, 2 * self.crop + 1, 2 if self.flip else 1])
        # Drawn sample by sample, so that a larger `count` leaves the first draws as they are.
        return (rng.random((count, 3)) * choices).astype(np.int64)


def augmentation(
    shape: tuple[int, ...], crop: int, flip: bool, dense: bool, scale: Standard | None
) -> Augmentation | None:
    """The augmentation that `crop` and `flip` ask for, or None."""
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
    # Samples of dense networks are stored standardised, so their border is standardised black.
    fill = scale.apply(black) if dense and scale is not None else black
    return Augmentation(crop, flip, (height, width, channels), fill)
