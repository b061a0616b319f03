"""`handwriting`: the promised bytes, its writers and classes, the fonts' licences, and that it is worth learning."""

import numpy as np
import pytest
from PIL import ImageFont

from fedlib.data import handwriting
from fedlib.data.dataset import sha256
from fedlib.data.known import CHARACTERS, HANDWRITING

pytestmark = pytest.mark.slow

LICENCES = handwriting.FONTS / "licenses"


@pytest.fixture(scope="module")
def arrays():
    return handwriting.generate(None)


@pytest.fixture(scope="module")
def font_table():
    lines = (handwriting.FONTS / "FONTS.txt").read_text().splitlines()
    _, *rows = [line.split(" | ", 3) for line in lines if " | " in line]
    return {font: rest for font, *rest in rows}


def test_the_bytes_are_those_behind_the_saved_results(arrays):
    assert {name: sha256(array) for name, array in arrays.items()} == HANDWRITING.hashes


def test_there_are_360_writers_of_at_least_100_samples_split_nine_to_one_within_each(arrays):
    train, test = (np.bincount(arrays[f"writer_{part}"]) for part in ("train", "test"))
    assert len(train) == len(test) == 360
    assert (train + test).min() >= 100
    assert 140 <= np.median(train + test) <= 170
    np.testing.assert_array_equal(test, (train + test) // 10)


def test_all_classes_occur_about_half_are_digits_and_the_rarest_is_ten_times_rarer_than_the_commonest(arrays):
    counts = np.bincount(arrays["y_train"], minlength=62)
    assert counts.min() > 100 and set(arrays["y_test"]) == set(range(62))
    assert 0.45 < counts[:10].sum() / counts.sum() < 0.5
    assert counts.max() > 10 * counts.min()


def test_images_are_white_on_black_with_ink_up_to_255_and_an_empty_border_pixel_mostly(arrays):
    images = arrays["x_train"]
    assert images.dtype == np.uint8 and images.shape[1:] == (28, 28)
    assert (images.reshape(len(images), -1).max(axis=1) > 200).mean() > 0.99
    border = np.concatenate([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], axis=1)
    assert (border.max(axis=1) == 0).mean() > 0.9


def test_two_writers_of_one_font_write_the_same_character_differently(arrays):
    def threes(writer: int) -> np.ndarray:
        return arrays["x_train"][(arrays["y_train"] == 3) & (arrays["writer_train"] == writer)].astype(float)

    first, second = threes(0), threes(1)
    within = np.abs(first - first.mean(axis=0)).mean()
    between = np.abs(second - first.mean(axis=0)).mean()
    assert between > 1.1 * within


def nearest_neighbour_accuracy(arrays, excluded) -> float:
    """1-NN accuracy on every tenth test sample; `excluded` tells which training samples each may not use."""
    images = arrays["x_train"], arrays["x_test"][::10]
    train, queries = (part.reshape(len(part), -1) / np.float32(255) for part in images)
    distance = (train * train).sum(axis=1)[None, :] - 2 * queries @ train.T
    distance[excluded] = np.inf
    return (arrays["y_train"][distance.argmin(axis=1)] == arrays["y_test"][::10]).mean()


def test_neighbours_tell_most_characters_but_fewer_across_fonts_so_that_writers_matter(arrays):
    font_of = {part: arrays[f"writer_{part}"] // handwriting.WRITERS_PER_FONT for part in ("train", "test")}
    same_font = font_of["test"][::10, None] == font_of["train"][None, :]
    anyone = nearest_neighbour_accuracy(arrays, np.zeros_like(same_font))
    other_fonts = nearest_neighbour_accuracy(arrays, same_font)
    assert 0.75 < anyone < 0.95
    assert 0.5 < other_fonts < anyone - 0.1


def test_every_font_draws_all_62_characters_differently_from_its_sign_for_a_missing_one():
    for file in handwriting.font_files():
        font = ImageFont.truetype(str(file), 40, layout_engine=ImageFont.Layout.BASIC)
        missing = bytes(font.getmask("\uffff"))
        drawn = [bytes(font.getmask(character)) for character in CHARACTERS]
        assert all(any(mask) and mask != missing for mask in drawn), file.name
        assert len(set(drawn)) >= 60, f"{file.name} draws several characters alike"


def test_every_font_comes_with_the_text_of_an_open_licence_and_a_copyright(font_table):
    assert set(font_table) == {file.stem for file in handwriting.font_files()}
    for package, licence, copyright_line in font_table.values():
        text = (LICENCES / licence).read_text()
        assert "SIL OPEN FONT LICENSE Version 1.1" in text or "Apache License" in text
        assert package.startswith("@fontsource/") and "opyright" in copyright_line
    assert {row[1] for row in font_table.values()} == {file.name for file in LICENCES.iterdir()}


def test_the_fonts_stay_below_three_megabytes():
    assert sum(file.stat().st_size for file in handwriting.FONTS.rglob("*") if file.is_file()) < 3_000_000
