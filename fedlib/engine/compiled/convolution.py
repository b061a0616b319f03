"""Convolutions of stride one, with the pooling and the rectifier behind them, in machine code.

Samples lie channels last, so a row of the kernel meets one run of neighbouring floats: three columns of 32 channels are 96
floats. Forward, a tile of six places by sixteen outputs is summed over the kernel. Backward, the error behind a pooling
and a rectifier is mostly zero: one place in four survives the first, a part of those the second. Gradients are therefore
sums over lists of what is not zero: each entry is a multiple of runs of the input, or of runs of a kernel.

A few samples at a time go through all of this, so what is between convolution and rectifier never leaves the cache.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from fedlib.engine.compiled import compiled
from fedlib.engine.compiled.tiles import LANES, largest_of_four, list_by_channel, list_by_place, runs_tile, table_tile

PLACES, STRIP = 6, 2 * LANES  # places and outputs of a tile
TOGETHER = 64  # small samples are taken together until they have so many places
CELLS = 64  # for so many cells at a time the kernels' rows are kept in the nearest cache

_tile = table_tile(PLACES, STRIP // LANES)
_largest_8, _largest_1 = largest_of_four(LANES), largest_of_four(1)
_list_8, _list_1 = list_by_channel(LANES), list_by_channel(1)

RUNS = ((1, 12), (1, 10), (1, 8), (3, 4), (3, 2), (3, 1), (5, 2), (5, 1))  # runs and vectors of a tile, by its number
_runs_1x12, _runs_1x10, _runs_1x8, _runs_3x4, _runs_3x2, _runs_3x1, _runs_5x2, _runs_5x1 = (
    runs_tile(*shape) for shape in RUNS
)


class Form(NamedTuple):
    """A convolution's sizes. A cell is what becomes one output: a place of the kernel, or four that are pooled."""

    height: int  # of a sample with the zeros around it
    width: int
    channels: int
    pad: int
    outputs: int
    tall: int  # the kernel's sides
    broad: int
    rows: int  # cells of a sample
    columns: int
    side: int  # of a cell in places: 2 with pooling, 1 without
    rectified: bool
    tile: int  # a number in RUNS, for the gradients
    runs: int
    block: int  # floats of a tile's run
    length: int  # of a kernel's row, whole blocks


@cache
def form(
    sample: tuple[int, int, int], kernels: tuple[int, int, int, int], pad: int, pooled: bool, rectified: bool
) -> Form:
    """For samples (height, width, channels) and kernels (outputs, height, width, channels)."""
    height, width, channels = sample[0] + 2 * pad, sample[1] + 2 * pad, sample[2]
    outputs, tall, broad, _ = kernels
    side = 2 if pooled else 1
    tile = min(range(len(RUNS)), key=lambda number: _cost(*RUNS[number], tall, broad * channels))
    block = RUNS[tile][1] * LANES
    return Form(
        height,
        width,
        channels,
        pad,
        outputs,
        tall,
        broad,
        (height - tall + 1) // side,
        (width - broad + 1) // side,
        side,
        rectified,
        tile,
        RUNS[tile][0],
        block,
        -(-broad * channels // block) * block,
    )


def _cost(runs: int, vectors: int, rows: int, length: int) -> float:
    """Of covering `rows` runs of `length` floats with tiles, about, in multiplications of vectors."""
    tiles = rows // runs * -(-length // (LANES * vectors))
    return tiles * (max(8, runs * vectors) + 2) if rows % runs == 0 else np.inf


# ---------------------------------------------------------------- memory


@compiled
def _group(form, samples):
    """How many samples to take together."""
    return max(1, min(samples, TOGETHER // (form.rows * form.columns)))


@compiled
def _copy(values, to):
    """to[...] = values, without the check of lengths, which takes seconds to compile."""
    for i in range(len(values)):
        to[i] = values[i]


@compiled
def _frame(form, x, framed):
    """Samples with zeros around each; `framed` is flat, zero and may be longer."""
    count, height, width, channels = x.shape
    for sample in range(count):
        for row in range(height):
            at = ((sample * form.height + row + form.pad) * form.width + form.pad) * channels
            _copy(x[sample, row].reshape(width * channels), framed[at : at + width * channels])


@compiled
def _unframe(form, framed, x):
    count, height, width, channels = x.shape
    for sample in range(count):
        for row in range(height):
            at = ((sample * form.height + row + form.pad) * form.width + form.pad) * channels
            _copy(framed[at : at + width * channels], x[sample, row].reshape(width * channels))


@compiled
def _corners(form, count, side, extra):
    """Where in framed samples each cell begins, if cells have this side; `extra` zeros behind."""
    rows, columns = form.rows * form.side // side, form.columns * form.side // side
    found = np.zeros(count * rows * columns + extra, np.int64)
    for sample in range(count):
        for row in range(rows):
            for column in range(columns):
                at = ((sample * form.height + side * row) * form.width + side * column) * form.channels
                found[(sample * rows + row) * columns + column] = at
    return found


# ---------------------------------------------------------------- forward


@compiled
def _steps(form):
    """How far each float of a kernel's window is from its corner."""
    run = form.broad * form.channels
    found = np.empty(form.tall * run, np.int64)
    for row in range(form.tall):
        for k in range(run):
            found[row * run + k] = row * form.width * form.channels + k
    return found


@compiled
def _strips(weight):
    """The kernels (outputs, height, width, channels) as tiles read them: (strip, place in the kernel, 16 outputs)."""
    outputs, depth = weight.shape[0], weight[0].size
    found = np.zeros(((outputs + STRIP - 1) // STRIP, depth, STRIP), np.float32)
    flat = weight.reshape(outputs, depth)
    for output in range(outputs):
        for k in range(depth):
            found[output // STRIP, k, output % STRIP] = flat[output, k]
    return found


@compiled
def _convolve(framed, places, count, steps, strips, wide):
    """`wide` (places, strips * 16) for the first `count` places; the last tile may fill a few rows more."""
    depth, stride = len(steps), wide.shape[1]
    for strip in range(len(strips)):
        for place in range(0, count, PLACES):
            _tile(
                framed.ctypes.data,
                places[place:].ctypes.data,
                steps.ctypes.data,
                depth,
                strips[strip].ctypes.data,
                wide.ctypes.data + 4 * (place * stride + strip * STRIP),
                stride,
            )


@compiled
def _pool(form, wide, stride, out, which):
    """2 x 2 maxima of one sample and where in the square they were; all by address, `stride` floats a place in `wide`."""
    whole, down = form.outputs // LANES * LANES, 2 * form.columns * stride
    for row in range(form.rows):
        for column in range(form.columns):
            a = wide + 4 * (2 * row * down + 2 * column * stride)
            to = (row * form.columns + column) * form.outputs
            for output in range(0, whole, LANES):
                _largest_8(a + 4 * output, stride, down, out + 4 * (to + output), which + to + output)
            for output in range(whole, form.outputs):
                _largest_1(a + 4 * output, stride, down, out + 4 * (to + output), which + to + output)


@compiled
def _add_bias(out, bias, rectified):
    """Adds the bias to each row; the rectifier keeps a NaN."""
    zero = np.float32(0)
    for cell in range(len(out)):
        row = out[cell]
        if rectified:
            for output in range(len(bias)):
                value = row[output] + bias[output]
                row[output] = zero if value < zero else value
        else:
            for output in range(len(bias)):
                row[output] += bias[output]


@compiled
def forward(form, x, weight, bias):
    """Convolution, 2 x 2 maxima if wanted, bias, rectifier if wanted: (samples, rows, columns, outputs) and where maxima were."""
    samples, cells, group = len(x), form.rows * form.columns, _group(form, len(x))
    out = np.empty((samples, cells, form.outputs), np.float32)
    which = np.empty((samples if form.side == 2 else 0, cells, form.outputs), np.uint8)
    framed = np.zeros(group * form.height * form.width * form.channels, np.float32)
    places, steps, strips = _corners(form, group, 1, PLACES), _steps(form), _strips(weight)
    each, stride = cells * form.side * form.side, len(strips) * STRIP
    wide = np.empty((len(places), stride), np.float32)
    for first in range(0, samples, group):
        last = min(first + group, samples)
        _frame(form, x[first:last], framed)
        _convolve(framed, places, (last - first) * each, steps, strips, wide)
        for sample in range(first, last):
            own = wide[(sample - first) * each :]
            if form.side == 2:
                _pool(form, own.ctypes.data, stride, out[sample].ctypes.data, which[sample].ctypes.data)
            else:
                for cell in range(cells):
                    _copy(own[cell, : form.outputs], out[sample, cell])
            _add_bias(out[sample], bias, form.rectified)
    return out.reshape(samples, form.rows, form.columns, form.outputs), which


# ---------------------------------------------------------------- backward


@compiled
def _add_runs(tile, entries, count, a, a_run, c, c_run):
    if tile == 0:
        _runs_1x12(entries, count, a, a_run, c, c_run)
    elif tile == 1:
        _runs_1x10(entries, count, a, a_run, c, c_run)
    elif tile == 2:
        _runs_1x8(entries, count, a, a_run, c, c_run)
    elif tile == 3:
        _runs_3x4(entries, count, a, a_run, c, c_run)
    elif tile == 4:
        _runs_3x2(entries, count, a, a_run, c, c_run)
    elif tile == 5:
        _runs_3x1(entries, count, a, a_run, c, c_run)
    elif tile == 6:
        _runs_5x2(entries, count, a, a_run, c, c_run)
    else:
        _runs_5x1(entries, count, a, a_run, c, c_run)


@compiled
def _before_rectifier(error, out, kept):
    """The error that goes on: what the rectifier put to zero has none."""
    zero = np.float32(0)
    for i in range(len(error)):
        kept[i] = zero if out[i] <= zero else error[i]


@compiled
def _lists_by_output(form, kept, which, corners, cells, lists, counts, by_bias):
    """What of the error (cells, outputs) is not zero, a list for each output; `by_bias` gains the sums."""
    outputs, right, down, length = form.outputs, form.channels, form.width * form.channels, lists.shape[1]
    error, marks, starts, whole = (
        kept.ctypes.data,
        which.ctypes.data,
        corners.ctypes.data,
        form.outputs // LANES * LANES,
    )
    for output in range(0, whole, LANES):
        _list_8(
            error + 4 * output,
            marks + output,
            outputs,
            starts,
            cells,
            right,
            down,
            lists[output].ctypes.data,
            length,
            counts[output:].ctypes.data,
            by_bias[output:].ctypes.data,
        )
    for output in range(whole, outputs):
        _list_1(
            error + 4 * output,
            marks + output,
            outputs,
            starts,
            cells,
            right,
            down,
            lists[output].ctypes.data,
            length,
            counts[output:].ctypes.data,
            by_bias[output:].ctypes.data,
        )


@compiled
def _add_by_weight(form, framed, lists, counts, by_weight):
    """To each kernel's gradient: the windows of the samples that its error meets, times the error."""
    line = form.width * form.channels
    for output in range(form.outputs):
        for row in range(0, form.tall, form.runs):
            for at in range(0, form.length, form.block):
                _add_runs(
                    form.tile,
                    lists[output].ctypes.data,
                    counts[output],
                    framed.ctypes.data + 4 * (row * line + at),
                    line,
                    by_weight.ctypes.data + 4 * ((output * form.tall + row) * form.length + at),
                    form.length,
                )


@compiled
def _add_by_x(form, kept, which, corners, kernels, lists, counts, by_x):
    """To the gradient by some cells' framed samples: in each place's window the kernels, times their errors."""
    outputs, line = form.outputs, form.width * form.channels
    for cell in range(len(corners)):
        list_by_place(
            kept.ctypes.data + 4 * cell * outputs,
            which.ctypes.data + cell * outputs,
            outputs,
            form.tall * form.length,
            lists[cell].ctypes.data,
            lists.shape[2],
            counts[cell].ctypes.data,
        )
    for row in range(0, form.tall, form.runs):
        for at in range(0, form.length, form.block):
            for cell in range(len(corners)):
                for place in range(form.side * form.side):
                    start = corners[cell] + place % 2 * form.channels + (place // 2 + row) * line
                    _add_runs(
                        form.tile,
                        lists[cell, place].ctypes.data,
                        counts[cell, place],
                        kernels.ctypes.data + 4 * (row * form.length + at),
                        form.length,
                        by_x.ctypes.data + 4 * (start + at),
                        line,
                    )


@compiled
def _long_rows(form, weight):
    """The kernels with zeros behind each row, up to whole blocks."""
    found = np.zeros((form.outputs, form.tall, form.length), np.float32)
    run = form.broad * form.channels
    for output in range(form.outputs):
        for row in range(form.tall):
            _copy(weight[output, row].reshape(run), found[output, row])
    return found


@compiled
def _short_rows(form, long):
    found = np.empty((form.outputs, form.tall, form.broad * form.channels), np.float32)
    for output in range(form.outputs):
        for row in range(form.tall):
            _copy(long[output, row, : found.shape[2]], found[output, row])
    return found.reshape(form.outputs, form.tall, form.broad, form.channels)


@compiled
def backward(form, x, weight, out, which, error, wants_x):
    """Gradients by the weights, the biases and, if wanted, the input, from the error at the output."""
    samples, cells, outputs, group = len(x), form.rows * form.columns, form.outputs, _group(form, len(x))
    kernels, by_bias = _long_rows(form, weight), np.zeros(outputs, np.float32)
    by_weight = np.zeros_like(kernels)
    by_x = np.empty(x.shape if wants_x else (0, 0, 0, 0), np.float32)
    framed = np.zeros(group * form.height * form.width * form.channels + form.length, np.float32)
    framed_by_x = np.zeros_like(framed)
    corners, kept = _corners(form, group, form.side, 0), np.empty(group * cells * outputs, np.float32)
    marks = np.zeros(group * cells * outputs, np.uint8)
    lists, counts = np.empty((outputs, group * cells + 1), np.int64), np.empty(outputs, np.int64)
    lists_by_place, counts_by_place = np.empty((CELLS, 4, outputs + 1), np.int64), np.empty((CELLS, 4), np.int64)
    for first in range(0, samples, group):
        last = min(first + group, samples)
        here = (last - first) * cells
        _frame(form, x[first:last], framed)
        if form.rectified:
            _before_rectifier(error[first:last].reshape(-1), out[first:last].reshape(-1), kept)
        else:
            _copy(error[first:last].reshape(-1), kept)
        if form.side == 2:
            marks = which[first:last].reshape(-1)
        _lists_by_output(form, kept, marks, corners, here, lists, counts, by_bias)
        _add_by_weight(form, framed, lists, counts, by_weight)
        if wants_x:
            framed_by_x[:] = 0
            for cell in range(0, here, CELLS):
                _add_by_x(
                    form,
                    kept[cell * outputs :],
                    marks[cell * outputs :],
                    corners[cell : min(cell + CELLS, here)],
                    kernels,
                    lists_by_place,
                    counts_by_place,
                    framed_by_x,
                )
            _unframe(form, framed_by_x, by_x[first:last])
    return _short_rows(form, by_weight), by_bias, by_x
