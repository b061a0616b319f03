"""The compiled loops: products against NumPy in double precision, exponentials, and what must not change a digit."""

import warnings
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlib.engine.compiled import dense_loops as dense
from fedlib.engine.compiled import tiles

sizes = st.integers(1, 40)
seeds = st.integers(0, 2**32 - 1)


def matrix(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def assert_close(found, exact, depth):
    """To the rounding of `depth` additions in single precision."""
    np.testing.assert_allclose(found, exact, rtol=0, atol=depth * 4e-7 * max(1.0, np.abs(exact).max(initial=0)))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 9).map(lambda fours: 4 * fours), columns=sizes, depth=sizes, seed=seeds)
def test_dots_are_products_with_the_transpose(rows, columns, depth, seed):
    rng = np.random.default_rng(seed)
    a, b, c = matrix(rng, rows, depth), matrix(rng, columns, depth), np.full((rows, columns + 1), 7, np.float32)
    tiles.dots(a.ctypes.data, depth, b.ctypes.data, depth, c.ctypes.data, columns + 1, rows, columns, depth)
    assert_close(c[:, :-1], a.astype(float) @ b.T.astype(float), depth)
    assert (c[:, -1] == 7).all(), "nothing is written beside the product"


@settings(max_examples=60, deadline=None)
@given(
    rows=st.one_of(st.integers(1, 4), st.sampled_from([8, 12])), columns=st.integers(1, 110), depth=sizes, seed=seeds
)
@pytest.mark.parametrize("transposed", [False, True])
def test_outers_are_products_however_the_left_one_lies(transposed, rows, columns, depth, seed):
    rng = np.random.default_rng(seed)
    a, b, c = matrix(rng, rows, depth), matrix(rng, depth, columns), np.full((rows, columns + 1), 7, np.float32)
    lies = np.ascontiguousarray(a.T) if transposed else a
    row, step = (1, rows) if transposed else (depth, 1)
    tiles.outers(lies.ctypes.data, row, step, b.ctypes.data, columns, c.ctypes.data, columns + 1, rows, columns, depth)
    assert_close(c[:, :-1], a.astype(float) @ b.astype(float), depth)
    assert (c[:, -1] == 7).all(), "nothing is written beside the product"


def test_a_sum_is_rounded_once_a_term_and_lanes_are_added_by_halves():
    """Sixteen terms: lane i holds fma(a[i + 8], b[i + 8], a[i] * b[i]); then halves are added onto halves. By hand:"""
    a, b = np.arange(1, 17, dtype=np.float32) / 3, np.arange(17, 1, -1, dtype=np.float32) / 7
    lanes = (np.float64(a[8:]) * np.float64(b[8:]) + np.float64(a[:8] * b[:8])).astype(np.float32)
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    found = np.zeros((4, 3), np.float32)
    a4, b3 = np.tile(a, (4, 1)), np.tile(b, (3, 1))
    tiles.dots(a4.ctypes.data, 16, b3.ctypes.data, 16, found.ctypes.data, 3, 4, 3, 16)
    assert (found == lanes[0]).all()


def called(tile, count):
    """A function of `count` integers that calls a tile."""
    names = ", ".join("abcdefgh"[:count])
    scope = {"tile": tile}
    exec(f"def call({names}): tile({names})", scope)
    return numba.njit(scope["call"])


def outer_sums(lanes, rng):
    """c = a b: 48 columns, as two tiles of eight lanes or one of sixteen."""
    a, b, c = matrix(rng, 4, 37), matrix(rng, 37, 48), np.empty((4, 48), np.float32)
    tile = called(tiles._outer_tile(4, 3, lanes), 8)
    for column in range(0, 48, 3 * lanes):
        at = 4 * column
        tile(a.ctypes.data, 37, 1, b.ctypes.data + at, 48, c.ctypes.data + at, 48, 37)
    return c


def table_sums(lanes, rng):
    a, b, c = matrix(rng, 200), matrix(rng, 30, 16), np.empty((12, 16), np.float32)
    starts, offsets, rows = rng.integers(0, 100, 12), rng.integers(0, 100, 30), 12 * lanes // 16
    tile = called(tiles.table_tile(rows, 16 // lanes, lanes), 7)
    for row in range(0, 12, rows):
        first = starts[row:].ctypes.data
        tile(a.ctypes.data, first, offsets.ctypes.data, 30, b.ctypes.data, c[row:].ctypes.data, 16)
    return c


def pooled_maxima(lanes, rng):
    a, b, offsets = matrix(rng, 400), matrix(rng, 30, 3), rng.integers(0, 80, (30, 2))
    c, which = np.empty((3, 16), np.float32), np.empty((3, 16), np.uint8)
    tile = called(tiles.pooled_tile(3, lanes), 8)
    for cell in range(0, 16, lanes):
        to, pixel = c.ctypes.data + 4 * cell, which.ctypes.data + cell
        tile(a.ctypes.data + 4 * cell, 200, offsets.ctypes.data, 30, b.ctypes.data, to, pixel, 16)
    return np.stack([c, which])


@pytest.mark.parametrize("tile", [outer_sums, table_sums, pooled_maxima])
def test_wide_registers_give_the_digits_of_narrow_ones(tile):
    narrow, wide = (tile(lanes, np.random.default_rng(0)) for lanes in (8, 16))
    assert narrow.tobytes() == wide.tobytes()


def test_exponentials_are_good_to_the_last_places():
    x = -np.concatenate([np.linspace(0, 1, 5001), np.linspace(1, 86, 5001)]).astype(np.float32)
    found = np.array([dense.exponential(value) for value in x], np.float32)
    exact = np.exp(x.astype(float))
    assert np.abs(found / exact - 1).max() < 2.5e-7
    assert dense.exponential(np.float32(0)) == 1
    assert 0 < dense.exponential(np.float32(-1e30)) < 1e-37, "far below, nearly nothing: no overflow, no zero"
    assert np.isnan(dense.exponential(np.float32("nan")))


def test_logarithms_are_good_to_the_last_places():
    x = np.concatenate([np.linspace(1e-3, 1, 5001), np.logspace(-37.9, -3, 5001)]).astype(np.float32)
    found = np.array([dense.logarithm(value) for value in x])
    np.testing.assert_allclose(found, np.log(x.astype(float)), rtol=1e-12, atol=1e-13)
    assert dense.logarithm(np.float32(1)) == 0
    assert dense.logarithm(np.float32(0)) == pytest.approx(-87.3365, abs=1e-3), "as small as float32 holds in full"
    assert np.isnan(dense.logarithm(np.float32("nan")))


def blocks_of(*widths):
    table, start = [], 0
    for inputs, outputs in pairwise(widths):
        table.append((start, outputs, inputs))
        start += outputs * (inputs + 1)
    return np.array(table), start


def gradients(table, weights, x, y, rows, share, l2=0.0):
    """Of one client that holds all rows."""
    out, ends = np.empty_like(weights), (np.array([0]), np.array([len(rows)]))
    dense.gradients(table, weights, x, y, rows, share, *ends, np.float32(l2), out, np.zeros(0))
    return out


def with_ones(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def gradient_by_numpy(table, weights, x, labels, share):
    """Softmax cross-entropy of a dense network in double precision, layer by layer."""
    layers = [
        weights[start : start + out * (into + 1)].reshape(out, into + 1).astype(float) for start, out, into in table
    ]
    seen = [x.astype(float)]
    for layer in layers[:-1]:
        seen.append(with_ones(np.maximum(seen[-1] @ layer.T, 0)))
    logits = seen[-1] @ layers[-1].T
    error = np.exp(logits - logits.max(1, keepdims=True))
    error /= error.sum(1, keepdims=True)
    error[np.arange(len(x)), labels] -= 1
    error *= share[:, None]
    found = []
    for layer, below in zip(layers[::-1], seen[::-1], strict=True):
        found.append((error.T @ below).ravel())
        error = (error @ layer[:, :-1]) * (below[:, :-1] > 0)
    return np.concatenate(found[::-1])


@settings(max_examples=40, deadline=None)
@given(
    widths=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    classes=st.integers(2, 12),
    count=st.one_of(st.integers(1, 9), st.integers(60, 140)),
    l2=st.sampled_from([0.0, 0.3]),
    seed=seeds,
)
def test_gradients_of_any_dense_network_and_any_number_of_samples(widths, classes, count, l2, seed):
    rng = np.random.default_rng(seed)
    table, size = blocks_of(*widths, classes)
    x = with_ones(matrix(rng, count + 3, widths[0])).astype(np.float32)
    y, rows = rng.integers(0, classes, count + 3), rng.integers(0, count + 3, count)
    share, weights = rng.random(count, dtype=np.float32) / count, 0.3 * matrix(rng, 1, size)
    out = np.full((1, size), 7, np.float32)
    out = gradients(table, weights, x, y, rows, share, l2)
    exact = gradient_by_numpy(table, weights[0], x[rows], y[rows], share) + l2 * weights[0]
    np.testing.assert_allclose(out[0], exact, rtol=1e-4, atol=2e-6)


def test_samples_without_a_share_change_no_digit():
    rng = np.random.default_rng(1)
    table, size = blocks_of(11, 6, 4)
    x, y = with_ones(matrix(rng, 9, 11)).astype(np.float32), rng.integers(0, 4, 9)
    weights, share = matrix(rng, 1, size), np.full(9, 1 / 5, np.float32) * (np.arange(9) < 5)
    share = share.astype(np.float32)

    def gradient(count):
        return gradients(table, weights, x, y, np.arange(count), share[:count])

    assert np.array_equal(gradient(9), gradient(5))


def test_a_diverged_model_shows_it():
    """NaN weights give NaN logits and gradients: no rectifier or maximum swallows them."""
    rng = np.random.default_rng(0)
    table, size = blocks_of(5, 4, 3)
    weights, x = matrix(rng, 1, size), with_ones(matrix(rng, 8, 5)).astype(np.float32)
    weights[0, 3] = np.nan
    found, out = np.zeros((8, 3), np.float32), np.zeros_like(weights)
    dense.logits(table, weights[0], x, found)
    assert np.isnan(found).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y, share = np.zeros(8, np.int64), np.full(8, 1 / 8, np.float32)
        out = gradients(table, weights, x, y, np.arange(8), share)
    assert np.isnan(out).any()
