"""HoG features against a loop that reads like the definition, against hand-counted images, and byte for byte."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlib.data import hog
from fedlib.data.dataset import sha256


def pixel(image: np.ndarray, row: int, column: int) -> int:
    """A pixel, or beyond the edge its nearest neighbour inside."""
    height, width = image.shape
    return int(image[min(max(row, 0), height - 1), min(max(column, 0), width - 1)])


def histogram(image: np.ndarray, top: int, left: int) -> list[float]:
    """The definition: every pixel of a 7 x 7 block adds its gradient's magnitude to the bin of its angle."""
    bins = [0.0] * 9
    for row in range(top, top + 7):
        for column in range(left, left + 7):
            dx = pixel(image, row, column + 1) - pixel(image, row, column - 1)
            dy = pixel(image, row + 1, column) - pixel(image, row - 1, column)
            angle = math.atan2(dy, dx) % (2 * math.pi)
            bins[math.floor(angle / (2 * math.pi / 9))] += math.hypot(dx, dy)
    return bins


def reference(image: np.ndarray, normalise: bool) -> list[float]:
    """Features of one grey image by plain loops."""
    features = []
    for top in range(0, image.shape[0] - 6, 3):
        for left in range(0, image.shape[1] - 6, 3):
            bins = histogram(image, top, left)
            norm = math.sqrt(sum(value * value for value in bins)) + 1 if normalise else 1
            features += [value / norm for value in bins]
    return features


@settings(deadline=None, max_examples=25)
@given(height=st.integers(7, 20), width=st.integers(7, 20), seed=st.integers(0, 2**32 - 1), normalise=st.booleans())
def test_features_equal_the_per_pixel_loop_on_random_images(height, width, seed, normalise):
    rng = np.random.default_rng(seed)
    # Few grey levels make flat regions and equal gradients frequent, where border cases would show.
    images = rng.choice([0, 1, 2, 128, 254, 255], size=(2, height, width)).astype(np.uint8)
    expected = [reference(image, normalise) for image in images]
    np.testing.assert_allclose(hog.features(images, normalise), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("direction", "expected_bin"), [("right", 0), ("down", 2), ("left", 4), ("up", 6)])
def test_an_edge_of_height_100_gives_1400_in_the_two_middle_blocks_and_nothing_elsewhere(direction, expected_bin):
    """Counted by hand: 7 * 2 * 100.

    Brightness steps by 100 between pixels 13 and 14, so both have gradient 100. The blocks that start at 9 and 12 hold
    both, over 7 pixels along the edge. Angles of 0, 90, 180, 270 degrees lie in the 40-degree bins 0, 2, 4, 6.
    """
    image = np.zeros((28, 28), np.uint8)
    image[:, 14:] = 100
    turned = {"right": image, "left": image[:, ::-1], "down": image.T, "up": image.T[::-1]}[direction]
    blocks = hog.features(turned[None], normalise=False).reshape(8, 8, 9)
    across = blocks if direction in ("right", "left") else blocks.swapaxes(0, 1)
    expected = np.zeros((8, 8, 9), np.float32)
    expected[:, 3:5, expected_bin] = 1400
    np.testing.assert_array_equal(across, expected)


def test_normalised_edge_blocks_have_length_1400_over_1401_and_flat_blocks_zero():
    image = np.zeros((1, 28, 28), np.uint8)
    image[:, :, 14:] = 100
    norms = np.linalg.norm(hog.features(image).reshape(8, 8, 9), axis=-1)
    np.testing.assert_allclose(norms[:, 3:5], 1400 / 1401, rtol=1e-6)
    assert not norms[:, [0, 1, 2, 5, 6, 7]].any()


def test_mnist_size_gives_576_features_and_cifar_size_729():
    assert hog.features(np.zeros((2, 28, 28), np.uint8)).shape == (2, 576)
    assert hog.features(np.zeros((2, 32, 32, 3), np.uint8)).shape == (2, 729)


def test_every_grey_level_is_its_own_luma_and_pure_colours_have_the_rounded_weights():
    levels = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(hog.grey(np.stack([levels] * 3, axis=-1)[None, :, None])[0, :, 0], levels)
    primaries = 255 * np.eye(3, dtype=np.uint8)[None, None]
    np.testing.assert_array_equal(hog.grey(primaries)[0, 0], [76, 150, 29])  # 76.2, 149.7, 29.1


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), lift=st.integers(0, 100))
def test_a_brighter_background_changes_no_feature(seed, lift):
    images = np.random.default_rng(seed).integers(0, 156, (1, 13, 10), dtype=np.uint8)
    np.testing.assert_array_equal(hog.features(images), hog.features(images + np.uint8(lift)))


def test_chunks_change_no_byte(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (11, 16, 16), dtype=np.uint8)
    whole = hog.features(images)
    monkeypatch.setattr(hog, "CHUNK", 3)
    np.testing.assert_array_equal(hog.features(images), whole)


def test_no_gradient_comes_so_near_a_border_that_rounding_could_move_it():
    steps = np.arange(-255, 256)
    angles = np.arctan2(steps[:, None], steps[None, :]) % (2 * np.pi)
    inner_borders = np.arange(1, 9) * 2 * np.pi / 9
    assert np.abs(angles[..., None] - inner_borders).min() > 1e-5


def test_features_have_the_same_bytes_on_every_machine():
    images = np.random.default_rng(2024).integers(0, 256, (50, 32, 32, 3), dtype=np.uint8)
    assert sha256(hog.features(images)) == "a6a18188221b25a3cf17c2a3e57e69fd242c4b0226ea6ab86e0ef5114b77598f"


@pytest.mark.parametrize("images", [np.zeros((1, 28, 28), np.float32), np.zeros((1, 6, 28), np.uint8), np.zeros(9)])
def test_images_of_another_type_or_too_small_are_refused_with_what_would_be_right(images):
    with pytest.raises(ValueError, match="must be uint8 N x H x W"):
        hog.features(images)
