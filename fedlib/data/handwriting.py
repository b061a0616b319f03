"""`handwriting`: a stand-in for FEMNIST that needs no network, drawn from openly licensed handwriting fonts.

360 writers, 62 classes (0-9 A-Z a-z), 28 x 28 pixels, ink = 255. A writer is one of 90 fonts and a personal hand:
slant, rotation, width, size and weight of the pen; each sample adds its own jitter and bend. As in FEMNIST, about half
the characters are digits, letters are rare or frequent as in English, writers differ in how much and what they write
(at least 100 samples, median 153), and every writer's samples are split 9:1. It is about as hard: a small convolutional
network reaches 87% after five epochs (86% on FEMNIST), the nearest neighbour 86% (80%), but only 66% if it is of
another font.

The same bytes come out on every x86-64 machine: FreeType draws the glyphs in whole numbers, all geometry after that is
in fixed point (16 bits of fraction), and random numbers are drawn as whole numbers only. Another release of Pillow may
bring another FreeType and other bytes; then the fingerprint differs and `load` says so.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from PIL import Image, ImageFont, features
from tqdm import tqdm

from fedlib.data.dataset import SAMPLES, WRITERS, Arrays
from fedlib.data.known import CHARACTERS

FONTS = Path(__file__).parent / "fonts"
SEED = 62
WRITERS_PER_FONT = 4
FEWEST, MOST = 100, 300  # samples per writer
SIDE = 28  # pixels of a sample
SUB = 2  # sub-samples per pixel and axis
TRIAL_SIZE = 100
CAPITALS = CHARACTERS[10:36]
CAPITAL = 32  # height of a font's capitals before distortion, in pixels
LONGEST = 44  # longer side of a glyph before distortion, at most
CANVAS_BITS = 7
CANVAS = 1 << CANVAS_BITS  # side of the empty field around a glyph; positions beyond it wrap around, into emptiness
ONE = 1 << 16  # fixed-point unit
SHIFT = 1  # pixel by which a sample may lie off the middle
BEND = 3  # pixels of the glyph by which each term of a bend may move it
MOST_WIDENING = 3  # pixels by which a pen may widen the strokes of a font on each side
# How often characters are written: about half digits, letters much as in English, capitals more often than small ones.
DIGITS = (660, 744, 600, 624, 564, 540, 588, 636, 564, 588)
LETTERS = (82, 15, 28, 43, 127, 22, 20, 61, 70, 8, 9, 40, 24, 67, 75, 19, 7, 60, 63, 91, 28, 10, 24, 7, 20, 6)
FREQUENCY = (*DIGITS, *(3 * letter + 30 for letter in LETTERS), *(2 * letter + 25 for letter in LETTERS))


@dataclass(frozen=True)
class Hand:
    """What is personal in a writer's hand; lengths in pixels, everything in fixed point."""

    slant: int  # sideways pixels per pixel of height
    rotation: int  # radians
    width: int  # of a character, relative to the font's
    size: int  # height of capitals
    pen: int  # width of strokes where capitals are `CAPITAL` high
    ink: int  # factor on the brightness of strokes


def edition() -> str:
    """Eight digits for what decides the bytes: this file, the fonts, and the FreeType that draws the glyphs."""
    files = [Path(__file__), *font_files()]
    decisive = [str(features.version("freetype2")).encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"".join(decisive)).hexdigest()[:8]


def font_files() -> list[Path]:
    """The fonts shipped with the package, in the order of their names."""
    return sorted(FONTS.glob("*.woff"))


def open_font(file: Path) -> ImageFont.FreeTypeFont:
    """A font at the size at which its capitals are `CAPITAL` pixels high (their median)."""
    trial = ImageFont.truetype(str(file), TRIAL_SIZE, layout_engine=ImageFont.Layout.BASIC)
    boxes = [trial.getmask(capital).getbbox() for capital in CAPITALS]
    height = sorted(bottom - top for _, top, _, bottom in boxes)[len(boxes) // 2]
    return trial.font_variant(size=(TRIAL_SIZE * CAPITAL + height // 2) // height)


def draw_glyph(font: ImageFont.FreeTypeFont, character: str) -> np.ndarray:
    """One character in the middle of an empty canvas, cropped to its ink; one with long strokes is made smaller."""
    mask = font.getmask(character)
    raw = bytes(mask)  # pyright: ignore[reportArgumentType]  a buffer, which Pillow's annotations do not say
    image = Image.frombytes("L", mask.size, raw).crop(mask.getbbox())
    if (longer := max(image.size)) > LONGEST:
        image = image.resize([max(1, side * LONGEST // longer) for side in image.size], Image.Resampling.BOX)
    width, height = image.size
    top, left = (CANVAS - height) // 2, (CANVAS - width) // 2
    canvas = np.zeros((CANVAS, CANVAS), np.uint8)
    canvas[top : top + height, left : left + width] = np.asarray(image)
    return canvas


def draw_font(file: Path) -> np.ndarray:
    """All glyphs of a font, 62 x CANVAS x CANVAS."""
    font = open_font(file)
    return np.stack([draw_glyph(font, character) for character in CHARACTERS])


def widened(glyphs: np.ndarray) -> np.ndarray:
    """Strokes one pixel wider on each side: the maximum over a pixel and its four neighbours."""
    shifted = [np.roll(glyphs, step, axis) for axis in (1, 2) for step in (-1, 1)]
    return np.maximum.reduce([glyphs, *shifted])


def stroke_width(glyphs: np.ndarray) -> int:
    """Mean width of strokes in fixed point: twice the inked area over the length of its outline.

    The outline is counted in steps along the axes, which are 14/11 (about 4/pi) times its length on average.
    """
    inked = glyphs >= 128
    steps = sum(int(np.count_nonzero(np.diff(inked, axis=axis))) for axis in (1, 2))
    return 2 * int(np.count_nonzero(inked)) * ONE * 14 // (steps * 11)


def with_pen(widths: list[np.ndarray], natural: int, pen: int) -> np.ndarray:
    """Glyphs with strokes about `pen` wide, blended from the font's own (`natural` wide) and its widened versions."""
    widening = min(max(pen - natural, 0) // 2, (MOST_WIDENING * ONE) - 1)
    step, fraction = widening >> 16, (widening & (ONE - 1)) >> 8
    thin, thick = widths[step].astype(np.uint16), widths[step + 1].astype(np.uint16)
    return ((thin * (256 - fraction) + thick * fraction) >> 8).astype(np.uint8)


def bell(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Whole numbers within -ONE..ONE, most near 0: the mean of three uniform draws."""
    return rng.integers(-ONE, ONE + 1, size=(3, *shape)).sum(axis=0) // 3


@overload
def times(a: int, b: int) -> int: ...
@overload
def times(a: np.ndarray, b: np.ndarray | int) -> np.ndarray: ...
def times(a, b):
    """Product in fixed point."""
    return a * b >> 16


def fixed(value: float) -> int:
    """A constant in fixed point."""
    return round(value * ONE)


def draw_hand(rng: np.random.Generator) -> Hand:
    """A writer's personal distortion."""
    slant, rotation, width = (int(draw) for draw in bell(rng, 3))
    size, pen, ink = (int(draw) for draw in rng.integers(0, ONE, size=3))
    return Hand(
        slant=times(slant, fixed(0.5)),
        rotation=times(rotation, fixed(0.2)),
        width=ONE + times(width, fixed(0.35)),
        size=fixed(13) + 5 * size,
        pen=fixed(3) + 3 * pen,
        ink=fixed(1.1) + times(ink, fixed(0.7)),
    )


def draw_labels(rng: np.random.Generator) -> np.ndarray:
    """What a writer wrote: how many characters, and which, by personal preference around the common frequencies."""
    draw = int(rng.integers(0, ONE))
    count = FEWEST + ((MOST - FEWEST) * draw * draw >> 32)
    limits = np.cumsum(np.array(FREQUENCY) * rng.integers(20, 101, size=len(FREQUENCY)))
    return np.searchsorted(limits, rng.integers(0, limits[-1], size=count), side="right").astype(np.uint8)


def linear_part(hand: Hand, jitter: np.ndarray) -> tuple[np.ndarray, ...]:
    """xx, xy, yx, yy of the map from a sample back to the glyph: the inverse of scaling, slanting, then rotating.

    `jitter` holds four draws of `bell` per sample: rotation, slant, width, size. The cosine is taken to second order.
    """
    turn, lean, wide, big = jitter
    sin = hand.rotation + times(turn, fixed(0.2))
    cos = ONE - times(sin, sin) // 2
    slant = hand.slant + times(lean, fixed(0.2))
    size = times(ONE + times(big, fixed(0.15)), hand.size)
    width = times(ONE + times(wide, fixed(0.2)), hand.width)
    per_y = CAPITAL * ONE * ONE // size
    per_x = per_y * ONE // width
    return (
        times(per_x, cos - times(slant, sin)),
        times(per_x, sin + times(slant, cos)),
        -times(per_y, sin),
        times(per_y, cos),
    )


def bend(amplitudes: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """A curve over the sample, quadratic plus cubic, by at most `BEND` glyph pixels each."""
    unit = centres // (SIDE // 2)
    square = times(unit, unit)
    return BEND * (times(amplitudes[0], square) + times(amplitudes[1], times(square, unit)))


def write(glyphs: np.ndarray, labels: np.ndarray, hand: Hand, rng: np.random.Generator) -> np.ndarray:
    """Samples N x SIDE x SIDE of the characters `labels`, each sub-pixel looked up where the hand's distortion puts it.

    A bend shifts x by the row and y by the column only, so that every coordinate is a sum of a row's and a column's
    part.
    """
    jitter = bell(rng, 10, len(labels), 1)
    centres = (2 * np.arange(SIDE * SUB) + 1 - SIDE * SUB)[None, :] * (ONE // (2 * SUB))
    across, down = centres + SHIFT * jitter[4], centres + SHIFT * jitter[5]
    xx, xy, yx, yy = linear_part(hand, jitter[:4])
    middle = CANVAS * ONE // 2
    x = outer_sum(times(xy, down) + bend(jitter[6:8], down), times(xx, across) + middle)
    y = outer_sum(times(yy, down) + middle, times(yx, across) + bend(jitter[8:10], across))
    inside = CANVAS - 1
    place = labels.astype(np.int32)[:, None, None] << 2 * CANVAS_BITS
    place = place | ((y >> 16) & inside) << CANVAS_BITS | (x >> 16) & inside
    return pixels(glyphs.reshape(-1)[place], hand.ink)


def outer_sum(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """N x rows + N x columns -> N x rows x columns."""
    return rows.astype(np.int32)[:, :, None] + columns.astype(np.int32)[:, None, :]


def pixels(fine: np.ndarray, ink: int) -> np.ndarray:
    """Means over the sub-pixels of each pixel, times the ink, at most 255."""
    total = np.zeros((len(fine), SIDE, SIDE), np.int32)
    for row in range(SUB):
        for column in range(SUB):
            total += fine[:, row::SUB, column::SUB]
    return np.minimum(total * (ink >> 8) // (256 * SUB * SUB), 255).astype(np.uint8)


def draw_writers(file: Path, first: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and labels of the `WRITERS_PER_FONT` writers of a font, numbered from `first`."""
    widths = [draw_font(file)]
    natural = stroke_width(widths[0])
    for _ in range(MOST_WIDENING):
        widths.append(widened(widths[-1]))
    writers = []
    for writer in range(first, first + WRITERS_PER_FONT):
        rng = np.random.default_rng([SEED, writer])
        hand, labels = draw_hand(rng), draw_labels(rng)
        writers.append((write(with_pen(widths, natural, hand.pen), labels, hand, rng), labels))
    return writers


def generate(_: Path) -> Arrays:
    """The raw arrays of `handwriting`; the last tenth of each writer's samples (in random order) is for testing."""
    writers = []
    for file in tqdm(font_files(), desc="handwriting", unit="font", disable=None):
        writers += draw_writers(file, first=len(writers))
    parts: dict[str, list[np.ndarray]] = {name: [] for name in (*SAMPLES, *WRITERS)}
    for number, (images, labels) in enumerate(writers):
        kept = len(labels) - len(labels) // 10
        for part, chosen in (("train", slice(kept)), ("test", slice(kept, None))):
            parts[f"x_{part}"].append(images[chosen])
            parts[f"y_{part}"].append(labels[chosen])
            parts[f"writer_{part}"].append(np.full(len(labels[chosen]), number, np.uint16))
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}
