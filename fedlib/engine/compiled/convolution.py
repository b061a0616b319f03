"""Convolutions of stride one, with the pooling and the rectifier behind them, in machine code.

Samples lie channels last, so a row of the kernel meets one run of neighbouring floats: three columns of 32 channels are 96
floats. Forward, a tile of six places by sixteen output channels is summed over the kernel. Backward, the error behind a
pooling and a rectifier is mostly zero: one place in four survives the first, about half of those the second. The gradients
are therefore sums over lists of what is not zero, each entry a multiple of a run of the input (or of the kernel).

A few samples at a time go through all of this, so what is between convolution and rectifier never leaves the cache.
"""

import numpy as np

from fedlib.engine.compiled import compiled
from fedlib.engine.compiled.tiles import LANES, largest_of_four, list_by_channel, list_by_place, runs_tile, table_tile

STRIP = 2 * LANES  # output channels of a tile
PLACES = 6  # places of a tile
CELLS = 64
TOGETHER = 64  # so many places at least are worth going through at once

_tile = table_tile(PLACES, 2)
_largest_8, _largest_1 = largest_of_four(LANES), largest_of_four(1)
_list_8, _list_1 = list_by_channel(LANES), list_by_channel(1)

RUNS = ((1, 12), (1, 10), (1, 8), (3, 4), (3, 2), (3, 1), (5, 2), (5, 1))  # shapes of `_add_runs`, by number
_runs_1x12, _runs_1x10, _runs_1x8, _runs_3x4, _runs_3x2, _runs_3x1, _runs_5x2, _runs_5x1 = (
    runs_tile(*shape) for shape in RUNS
)


def shape_of_runs(height: int, length: int) -> int:
    """Which of RUNS covers a kernel of `height` rows of `length` floats at the least cost."""

    def cost(shape):
        runs, vectors = shape
        tiles = height // runs * -(-length // (LANES * vectors))
        return tiles * (max(8, runs * vectors) + 2) if height % runs == 0 else np.inf

    return min(range(len(RUNS)), key=lambda number: cost(RUNS[number]))


@compiled
def _add_runs(shape, entries, count, a, a_run, c, c_run):
    if shape == 0:
        _runs_1x12(entries, count, a, a_run, c, c_run)
    elif shape == 1:
        _runs_1x10(entries, count, a, a_run, c, c_run)
    elif shape == 2:
        _runs_1x8(entries, count, a, a_run, c, c_run)
    elif shape == 3:
        _runs_3x4(entries, count, a, a_run, c, c_run)
    elif shape == 4:
        _runs_3x2(entries, count, a, a_run, c, c_run)
    elif shape == 5:
        _runs_3x1(entries, count, a, a_run, c, c_run)
    elif shape == 6:
        _runs_5x2(entries, count, a, a_run, c, c_run)
    else:
        _runs_5x1(entries, count, a, a_run, c, c_run)


@compiled
def _frame(x, pad, framed):
    """Samples (samples, height, width, channels) with `pad` zeros around each; `framed` is flat, zero and may be longer."""
    count, height, width, channels = x.shape
    outer = (width + 2 * pad) * channels
    for sample in range(count):
        for row in range(height):
            at = (sample * (height + 2 * pad) + row + pad) * outer + pad * channels
            framed[at : at + width * channels] = x[sample, row].reshape(width * channels)


@compiled
def _unframe(framed, pad, x):
    count, height, width, channels = x.shape
    outer = (width + 2 * pad) * channels
    for sample in range(count):
        for row in range(height):
            at = (sample * (height + 2 * pad) + row + pad) * outer + pad * channels
            x[sample, row].reshape(width * channels)[:] = framed[at : at + width * channels]


@compiled
def _places(count, height, width, rows, columns, channels):
    """Where in the (framed) samples, height x width each, the kernel's corner lies for each output; whole tiles of them."""
    total = count * rows * columns
    found = np.zeros((total + PLACES - 1) // PLACES * PLACES, np.int64)
    for sample in range(count):
        for row in range(rows):
            for column in range(columns):
                found[(sample * rows + row) * columns + column] = ((sample * height + row) * width + column) * channels
    return found


@compiled
def _strips(weight):
    """The kernels (outputs, height, width, channels) as the tiles read them: (strip, place in the kernel, 16 outputs)."""
    outputs, depth = weight.shape[0], weight[0].size
    found = np.zeros(((outputs + STRIP - 1) // STRIP, depth, STRIP), np.float32)
    flat = weight.reshape(outputs, depth)
    for output in range(outputs):
        for k in range(depth):
            found[output // STRIP, k, output % STRIP] = flat[output, k]
    return found


@compiled
def _pool(wide, width, rows, columns, channels, stride, out, which):
    """2 x 2 maxima of one sample's places (row of `width`, `stride` floats each), and where in the square they were."""
    whole = channels // LANES * LANES
    for row in range(rows):
        for column in range(columns):
            a = wide + 4 * (2 * row * width + 2 * column) * stride
            to = (row * columns + column) * channels
            for channel in range(0, whole, LANES):
                _largest_8(a + 4 * channel, stride, width * stride, out + 4 * (to + channel), which + to + channel)
            for channel in range(whole, channels):
                _largest_1(a + 4 * channel, stride, width * stride, out + 4 * (to + channel), which + to + channel)


@compiled
def _add_bias(out, bias, rectified):
    """Adds the bias to each row; the rectifier keeps a NaN."""
    zero = np.float32(0)
    for place in range(len(out)):
        row = out[place]
        if rectified:
            for channel in range(len(bias)):
                value = row[channel] + bias[channel]
                row[channel] = zero if value < zero else value
        else:
            for channel in range(len(bias)):
                row[channel] += bias[channel]


@compiled
def forward(x, weight, bias, pad, pooled, rectified):
    """Convolution, 2 x 2 maxima if wanted, bias, rectifier if wanted: (samples, rows, columns, outputs) and where maxima were."""
    samples, height, width, channels = x.shape
    height, width = height + 2 * pad, width + 2 * pad
    outputs, tall, broad = weight.shape[:3]
    rows, columns, side = height - tall + 1, width - broad + 1, 2 if pooled else 1
    out = np.empty((samples, rows // side, columns // side, outputs), np.float32)
    which = np.zeros(out.shape if pooled else (0, 0, 0, 0), np.uint8)
    group = max(1, min(samples, TOGETHER // (rows * columns)))
    framed = np.zeros(group * height * width * channels, np.float32)
    places, steps = _places(group, height, width, rows, columns, channels), _places(1, height, width, tall, broad * channels, 1)
    for tap in range(tall * broad * channels):
        steps[tap] = tap // (broad * channels) * width * channels + tap % (broad * channels)
    strips = _strips(weight)
    stride, depth = len(strips) * STRIP, strips.shape[1]
    wide = np.empty(len(places) * stride, np.float32)
    for first in range(0, samples, group):
        here = min(group, samples - first)
        _frame(x[first : first + here], pad, framed)
        for strip in range(len(strips)):
            for place in range(0, here * rows * columns, PLACES):
                _tile(
                    framed.ctypes.data, places.ctypes.data + 8 * place, steps.ctypes.data, depth,
                    strips.ctypes.data + 4 * strip * depth * STRIP, wide.ctypes.data + 4 * (place * stride + strip * STRIP), stride,
                )  # fmt: skip
        for sample in range(here):
            own = wide[sample * rows * columns * stride :]
            to = out[first + sample].reshape(-1, outputs)
            if pooled:
                _pool(
                    own.ctypes.data, columns, rows // 2, columns // 2, outputs, stride, to.ctypes.data,
                    which.ctypes.data + (first + sample) * to.size,
                )  # fmt: skip
            else:
                for place in range(rows * columns):
                    to[place] = own[place * stride : place * stride + outputs]
            _add_bias(to, bias, rectified)
    return out, which


@compiled
def _kept(error, out, rectified, kept):
    """The error before the rectifier."""
    zero = np.float32(0)
    if rectified:
        for i in range(len(error)):
            kept[i] = zero if out[i] <= zero else error[i]
    else:
        kept[: len(error)] = error


@compiled
def _lists(error, which, cells, outputs, corners, right, down, lists, counts, by_bias):
    """What of the error (cells, outputs) is not zero, a list for each output; `by_bias` gains the sums."""
    length, whole = lists.shape[1], outputs // LANES * LANES
    for output in range(0, whole, LANES):
        _list_8(
            error + 4 * output, which + output, outputs, corners, cells, right, down,
            lists[output].ctypes.data, length, counts[output:].ctypes.data, by_bias[output:].ctypes.data,
        )  # fmt: skip
    for output in range(whole, outputs):
        _list_1(
            error + 4 * output, which + output, outputs, corners, cells, right, down,
            lists[output].ctypes.data, length, counts[output:].ctypes.data, by_bias[output:].ctypes.data,
        )  # fmt: skip


@compiled
def _corners(count, height, width, rows, columns, side, channels):
    """Where the window of each cell begins: cells of side x side outputs."""
    found = np.empty(count * rows * columns, np.int64)
    for sample in range(count):
        for row in range(rows):
            for column in range(columns):
                at = ((sample * height + side * row) * width + side * column) * channels
                found[(sample * rows + row) * columns + column] = at
    return found


@compiled
def backward(x, weight, out, which, error, pad, rectified, shape, runs, vectors, wants_x):
    """Gradients by the weights, the biases and, if wanted, the input; `shape` is the number of (runs, vectors) in RUNS."""
    samples, inner_height, inner_width, channels = x.shape
    height, width = inner_height + 2 * pad, inner_width + 2 * pad
    outputs, tall, broad = weight.shape[:3]
    rows, columns, side = out.shape[1], out.shape[2], 2 if which.size else 1
    length = broad * channels
    block = LANES * vectors
    padded = (length + block - 1) // block * block
    line = width * channels
    kernels = np.zeros((outputs, tall, padded), np.float32)
    for output in range(outputs):
        for row in range(tall):
            kernels[output, row, :length] = weight[output, row].reshape(length)
    by_weight = np.zeros((outputs, tall, padded), np.float32)
    by_bias = np.zeros(outputs, np.float32)
    group = max(1, min(samples, TOGETHER // (rows * columns)))
    cells = rows * columns
    framed = np.zeros(group * height * line + padded, np.float32)
    framed_error = np.zeros(group * height * line + padded if wants_x else 0, np.float32)
    by_x = np.empty(x.shape if wants_x else (0, 0, 0, 0), np.float32)
    corners = _corners(group, height, width, rows, columns, side, channels)
    offsets = np.array([0, channels, line, line + channels])
    kept = np.empty(group * cells * outputs, np.float32)
    nowhere = np.zeros(group * cells * outputs if side == 1 else 0, np.uint8)
    lists, counts = np.empty((max(outputs, 4), max(group * cells, outputs) + 1), np.int64), np.zeros(max(outputs, 4), np.int64)
    lists4, counts4 = np.empty((CELLS, 4, outputs + 1), np.int64), np.empty((CELLS, 4), np.int64)
    for first in range(0, samples, group):
        here = min(group, samples - first)
        _frame(x[first : first + here], pad, framed)
        _kept(error[first : first + here].reshape(-1), out[first : first + here].reshape(-1), rectified, kept)
        marks = which[first : first + here].reshape(-1) if side == 2 else nowhere
        _lists(kept.ctypes.data, marks.ctypes.data, here * cells, outputs, corners.ctypes.data, channels, line, lists, counts, by_bias)
        for output in range(outputs):
            for row in range(0, tall, runs):
                for at in range(0, padded, block):
                    _add_runs(shape, lists[output].ctypes.data, counts[output], framed.ctypes.data + 4 * (row * line + at), line, by_weight.ctypes.data + 4 * ((output * tall + row) * padded + at), padded)
        if wants_x:
            framed_error[:] = 0
            for begin in range(0, here * cells, CELLS):
                end = min(begin + CELLS, here * cells)
                for cell in range(begin, end):
                    list_by_place(kept.ctypes.data + 4 * cell * outputs, marks.ctypes.data + cell * outputs, outputs, tall * padded, lists4[cell - begin].ctypes.data, outputs + 1, counts4[cell - begin].ctypes.data)
                for row in range(0, tall, runs):
                    for at in range(0, padded, block):
                        for cell in range(begin, end):
                            for place in range(side * side):
                                _add_runs(shape, lists4[cell - begin, place].ctypes.data, counts4[cell - begin, place], kernels.ctypes.data + 4 * (row * padded + at), padded, framed_error.ctypes.data + 4 * (corners[cell] + offsets[place] + row * line + at), line)
            _unframe(framed_error, pad, by_x[first : first + here])
    found = np.empty(weight.shape, np.float32)
    for output in range(outputs):
        for row in range(tall):
            found[output, row].reshape(length)[:] = by_weight[output, row, :length]
    return found, by_bias, by_x
