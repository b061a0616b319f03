"""Lesson 1: its checks refuse wrong answers with the right hint, its sliders answer, its splits are what they say."""

import numpy as np
import pytest
import torch

from fedlib.course import lesson1
from fedlib.problem import skew

pytestmark = pytest.mark.slow

LABELS = np.repeat(np.arange(10), 200)


def cut(order, clients):
    return np.split(order, [len(order) - len(order) // 2**client for client in range(1, clients)])


def unshuffled(labels, clients, rng):
    return cut(np.arange(len(labels)), clients)


def always_alike(labels, clients, rng):
    return cut(np.random.default_rng(0).permutation(len(labels)), clients)


def with_replacement(labels, clients, rng):
    return cut(rng.integers(0, len(labels), len(labels)), clients)


def for_four_clients(labels, clients, rng):
    n = len(labels)
    return np.split(rng.permutation(n), [n // 2, 3 * n // 4, 7 * n // 8])


def from_the_global_generator(labels, clients, rng):
    return cut(np.random.permutation(len(labels)), clients)  # noqa: NPY002


def equal_sizes(labels, clients, rng):
    return np.array_split(rng.permutation(len(labels)), clients)


PURE = np.array([[6, 6, 0, 0], [0, 0, 6, 6]])


@pytest.mark.parametrize(
    ("check", "answers", "hint"),
    [
        (lesson1.shares, [lambda counts: counts / counts.sum(axis=0)], "each row must add up to 1"),
        (lesson1.shares, [lambda counts: counts.sum(axis=1)], "two rows of three out, not (2,)"),
        (lesson1.shares, [lambda counts: np.full(counts.shape, 1 / counts.shape[1])], "3/4, 1/4 and 0"),
        (
            lesson1.effective,
            [lambda p: np.exp(-(p * np.log(np.maximum(p, 0))).sum())],
            "leave out the shares that are 0",
        ),
        (lesson1.effective, [lambda p: np.exp((p[p > 0] * np.log(p[p > 0])).sum())], "Mind the sign"),
        (lesson1.effective, [lambda p: np.exp(-(p[p > 0] * np.log2(p[p > 0])).sum())], "natural logarithm"),
        (lesson1.effective, [lambda p: (p > 0).sum()], "the root of 8"),
        (lesson1.alpha_for_half, [3.0], "Try a smaller alpha"),
        (lesson1.alpha_for_half, [0.02], "Try a larger alpha"),
        (lesson1.alpha_for_half, ["0.3"], "alpha is a number"),
        (lesson1.halves, [unshuffled], "shuffle before you cut"),
        (lesson1.halves, [with_replacement], "exactly one client"),
        (lesson1.halves, [equal_sizes], "400, 200, 100, 100, not 200, 200, 200, 200"),
        (lesson1.halves, [always_alike], "draw with the rng you are given"),
        (lesson1.halves, [for_four_clients], "3 clients need 3 parts, not 4"),
        (lesson1.halves, [from_the_global_generator], "not from np.random"),
        (lesson1.effective, [lambda p: 1 / (p**2).sum()], "the root of 8"),
        (lesson1.alpha_for_half, [True], "alpha is a number"),
        (lesson1.alpha_for_half, [np.array([0.25])], "alpha is a number"),
        (lesson1.indistinguishable, [PURE, PURE], "another measure must tell them apart"),
        (lesson1.indistinguishable, [PURE, np.array([[9, 1], [1, 9]])], "agree to two digits"),
        (lesson1.indistinguishable, [np.ones((2, 3)), PURE], "nearly iid"),
        (lesson1.indistinguishable, [[1, 2, 3], PURE], "first: a row for each client"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_a_wrong_answer_gets_the_hint_that_helps(check, answers, hint, capsys):
    check(*answers)
    assert not check.passed and hint in capsys.readouterr().out


@pytest.mark.parametrize(
    "alpha",
    [0.25, np.float32(0.25), np.float64(0.25), np.array(0.25), torch.tensor(0.25)],
    ids=lambda a: type(a).__name__,
)
def test_a_right_number_passes_whatever_library_it_comes_from(alpha):
    lesson1.alpha_for_half(alpha)
    assert lesson1.alpha_for_half.passed


@pytest.mark.parametrize(
    "split",
    [
        lambda labels, clients, rng: cut(rng.permutation(len(labels)), clients),
        lambda labels, clients, rng: [part.tolist() for part in cut(rng.permutation(len(labels)), clients)],
    ],
    ids=["arrays", "lists"],
)
def test_a_right_split_passes(split):
    lesson1.halves(split)
    assert lesson1.halves.passed, lesson1.halves.hint


def test_a_federation_with_unlike_sizes_is_another_good_answer_to_the_open_exercise():
    grown = np.concatenate([PURE, 10 * PURE])  # whole groups with balanced classes grow: the pooled mixture stays
    lesson1.indistinguishable(np.concatenate([PURE, PURE]), grown)
    assert lesson1.indistinguishable.passed


def test_by_size_deals_everything_and_each_client_gets_its_multiple():
    parts = lesson1.by_size(np.arange(70), 3, 2.0, np.random.default_rng(0))
    assert [len(part) for part in parts] == [10, 20, 40]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(70))


def test_writers_shown_side_by_side_share_no_font():
    chosen = lesson1.fonts_apart(np.arange(40), 10, seed=0)
    assert sorted(chosen // 4) == list(range(10))
    assert list(chosen[:5]) == list(lesson1.fonts_apart(np.arange(40), 5, seed=0))


def test_the_nearest_neighbour_names_what_it_knows():
    seen = np.array([[0, 0], [10, 0], [0, 10]]), np.array([3, 5, 7])
    test = np.array([[1, 1], [9, 2], [6, 1], [2, 9]]), np.array([3, 5, 3, 7])
    assert lesson1.problem.nearest(seen, test) == 3 / 4


def test_the_sliders_show_the_dial_of_the_chosen_split_and_redraw():
    box = lesson1.explorer(LABELS, 10, seed=0)
    split, alpha, per_client, dominant, _, answer, picture = box.children
    shown = lambda: [dial.description for dial in (alpha, per_client, dominant) if dial.layout.display != "none"]  # noqa: E731
    assert shown() == ["alpha"]
    before = answer.value, picture.value
    alpha.value = 0.1
    assert answer.value != before[0] and picture.value != before[1]
    split.value = "shards"
    assert shown() == ["shards each"]
    per_client.value = 1
    assert answer.value.startswith("A client holds 1.0 digits")
    split.value = "dominance"
    dominant.value = 0.0
    assert answer.value.startswith("A client holds 10.0 digits")


def test_a_split_that_cannot_be_had_says_why():
    box = lesson1.explorer(np.repeat(np.arange(10), 5), 10, seed=0)
    split, _, per_client, _, count, answer, _ = box.children
    split.value = "shards"
    count.value, per_client.value = 40, 5
    assert "there are only 50 samples" in answer.value


def test_the_table_gives_the_measures_of_skew():
    parts = [np.arange(0, 1000), np.arange(1000, 2000)]  # digits 0 to 4 and 5 to 9
    row = lesson1.numbers({"two halves": parts}, LABELS).loc["two halves"]
    assert row["hellinger"] == pytest.approx(np.sqrt(1 - np.sqrt(0.5)), abs=0.005)
    assert row.drop("hellinger").to_dict() == {"effective_classes": 5.0, "emd": 1.0, "quantity_gini": 0.0}
    assert skew.quantity_gini(skew.class_counts(LABELS, parts, 10)) == 0
