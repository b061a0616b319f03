"""Histograms of oriented gradients, the features on which the ACFMO paper trains its softmax regression (experiments).

Blocks of 7 x 7 pixels at a stride of 3, and 9 bins of signed gradient angles over 0..2*pi, each pixel adding its
gradient's magnitude to the bin of its angle. 28 x 28 pixels give 8 x 8 blocks and 576 features; 32 x 32 give 9 x 9 and
729 (the last column and row of a 32 x 32 image lie in no block). What the paper leaves open is settled thus:

- Gradients are central differences of the pixels, edges replicated: dx to the right, dy down, angle = atan2(dy, dx).
- Bin k holds the angles from 40k degrees (included) to 40(k+1) (excluded). For whole numbers dx, dy only the angle 0
  lies on a border, since the tangents of the other borders are irrational, and none comes nearer to another border than
  1e-5 rad.
- Each block is divided by (its Euclidean norm + 1 grey level), so that contrast matters little and flat blocks stay
  near 0.
- Colour becomes grey by the weights 299, 587, 114 (thousandths), rounded to whole numbers.

Gradients are whole numbers in -255..255, so angle and magnitude come from a table of 511 x 511 entries, and blocks are
summed by elementwise float32 additions in a fixed order: the features have the same bytes on every machine.
"""

from functools import cache

import numpy as np
from tqdm import tqdm

BLOCK, STRIDE, BINS = 7, 3, 9
FLOOR = np.float32(1.0)  # grey levels added to a block's norm
CHUNK = 1000  # images at a time: about 40 MB of intermediate planes
SETTINGS = f"hog block={BLOCK} stride={STRIDE} bins={BINS} signed floor={FLOOR} luma=299,587,114"


def grey(images: np.ndarray) -> np.ndarray:
    """Luma of RGB images in whole numbers, (299 R + 587 G + 114 B + 500) // 1000; grey images pass unchanged."""
    if images.ndim == 3:
        return images
    red, green, blue = (images[..., channel].astype(np.int32) for channel in range(3))
    return ((299 * red + 587 * green + 114 * blue + 500) // 1000).astype(np.uint8)


@cache
def gradient_tables() -> tuple[np.ndarray, np.ndarray]:
    """Bin (uint8) and magnitude (float32) of the gradient (dx, dy), at index [dy + 255, dx + 255]."""
    steps = np.arange(-255, 256, dtype=np.float64)
    dy, dx = steps[:, None], steps[None, :]
    turns = np.arctan2(dy, dx) / (2 * np.pi)
    bins = np.floor(BINS * np.where(turns < 0, turns + 1, turns)).astype(np.uint8)
    return bins, np.sqrt(dx * dx + dy * dy).astype(np.float32)


def gradients(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Central differences (dx, dy) of uint8 images N x H x W as int16, edges replicated."""
    padded = np.pad(images.astype(np.int16), ((0, 0), (1, 1), (1, 1)), mode="edge")
    return padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]


def block_sums(plane: np.ndarray) -> np.ndarray:
    """Sums over all blocks of an N x H x W plane: first over the rows of a block, then over its columns."""
    for axis in (1, 2):
        last = (plane.shape[axis] - BLOCK) // STRIDE * STRIDE
        view = np.moveaxis(plane, axis, 1)
        total = view[:, 0 : last + 1 : STRIDE].copy()
        for offset in range(1, BLOCK):
            total += view[:, offset : offset + last + 1 : STRIDE]
        plane = np.moveaxis(total, 1, axis)
    return plane


def normalised(histograms: np.ndarray) -> np.ndarray:
    """Histograms N x blocks x blocks x bins, each divided by its Euclidean norm + `FLOOR`."""
    squares = np.zeros(histograms.shape[:-1], np.float32)
    for k in range(BINS):
        squares += histograms[..., k] * histograms[..., k]
    return histograms / (np.sqrt(squares) + FLOOR)[..., None]


def chunk_features(images: np.ndarray, normalise: bool) -> np.ndarray:
    """Features of a chunk of grey images that fits in memory."""
    bin_table, magnitude_table = gradient_tables()
    dx, dy = gradients(images)
    index = (dy.astype(np.int32) + 255) * 511 + (dx + 255)
    bins, magnitudes = bin_table.ravel()[index], magnitude_table.ravel()[index]
    sums = [block_sums(np.where(bins == k, magnitudes, np.float32(0))) for k in range(BINS)]
    histograms = np.stack(sums, axis=-1)
    return (normalised(histograms) if normalise else histograms).reshape(len(images), -1)


def features(images: np.ndarray, normalise: bool = True, title: str = "HoG") -> np.ndarray:
    """HoG features float32 N x d of uint8 images N x H x W or N x H x W x 3, block by block, bins innermost."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or min(images.shape[1:3]) < BLOCK:
        raise ValueError(
            f"images must be uint8 N x H x W or N x H x W x 3 with H, W >= {BLOCK}, not {images.dtype} {images.shape}"
        )
    blocks = [(size - BLOCK) // STRIDE + 1 for size in images.shape[1:3]]
    out = np.empty((len(images), blocks[0] * blocks[1] * BINS), np.float32)
    for start in tqdm(range(0, len(images), CHUNK), desc=title, unit="chunk", disable=None):
        chunk = grey(images[start : start + CHUNK])
        out[start : start + CHUNK] = chunk_features(chunk, normalise)
    return out
