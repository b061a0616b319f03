"""Convolutions of stride one in machine code, together with the max pooling and the ReLU that follow them.

Samples are stored channels-last, so one row of a kernel meets one run of neighbouring floats: three columns of 32
channels are 96 floats.

Forward, register tiles of six pixels by sixteen outputs, or eight by eight, are summed over the kernel. Backward, the
error behind a pooling and a ReLU is mostly zero: the pooling keeps one pixel in four, and the ReLU keeps a part of
those. So the gradients are sums over sparse lists: each entry adds a multiple of some runs of the input, or of some
runs of a kernel.

A few samples at a time pass through all layers, so what lies between the convolution and the ReLU stays in the cache.

A *pixel* is a position of the kernel on a sample. A *cell* is what becomes one pixel of the result: one pixel, or 2 x 2
pixels that are pooled.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from fedlib.engine.compiled import compiled
from fedlib.engine.compiled.tiles import (
    LANES,
    WIDE_LANES,
    max_of_four,
    pooled_tile,
    sparse_lists_by_channel,
    sparse_lists_by_pixel,
    sparse_tile,
    table_tile,
)

# Pixels and outputs of a forward tile, and of the one for few outputs.
TILE_OUTPUTS = 2 * LANES
TILE_VECTORS = TILE_OUTPUTS // WIDE_LANES
TILE_PIXELS = 12 // TILE_VECTORS  # twelve sums
NARROW_PIXELS, NARROW_OUTPUTS = 8, LANES
POOLED_OUTPUTS = 3  # of a tile that pools
GROUP_PIXELS = 64  # small samples are processed together, up to this many pixels
CACHED_CELLS = 64  # this many cells are processed at a time while a row of the kernels is in the first-level cache

_forward_tile = table_tile(TILE_PIXELS, TILE_VECTORS, WIDE_LANES)
_narrow_tile = table_tile(NARROW_PIXELS, 1, LANES)
_pooled_tile = pooled_tile(POOLED_OUTPUTS, WIDE_LANES)
_max_8 = max_of_four(LANES)
_lists_8, _lists_1 = sparse_lists_by_channel(LANES), sparse_lists_by_channel(1)

SPARSE_TILES = ((1, 12), (1, 10), (1, 8), (3, 4), (3, 2), (3, 1), (5, 2), (5, 1))  # runs, and vectors per run
_sparse_1x12, _sparse_1x10, _sparse_1x8, _sparse_3x4, _sparse_3x2, _sparse_3x1, _sparse_5x2, _sparse_5x1 = (
    sparse_tile(*shape) for shape in SPARSE_TILES
)


class Form(NamedTuple):
    """The sizes of a convolution."""

    height: int  # of a zero-padded sample
    width: int
    channels: int
    pad: int  # zeros on each side
    outputs: int
    kernel_height: int
    kernel_width: int
    rows: int  # of cells per sample
    columns: int
    cell_side: int  # in pixels: 2 with pooling, 1 without
    rectified: bool  # a ReLU follows
    tile: int  # the sparse tile for the gradients: an index into SPARSE_TILES
    tile_runs: int
    tile_floats: int  # per run of the tile
    row_floats: int  # per row of a kernel, rounded up to a multiple of tile_floats


@cache
def form(
    sample: tuple[int, int, int], kernels: tuple[int, int, int, int], pad: int, pooled: bool, rectified: bool
) -> Form:
    """For samples (height, width, channels) and kernels (outputs, height, width, channels)."""
    height, width, channels = sample[0] + 2 * pad, sample[1] + 2 * pad, sample[2]
    outputs, kernel_height, kernel_width, _ = kernels
    cell_side, run = 2 if pooled else 1, kernel_width * channels
    tile = min(range(len(SPARSE_TILES)), key=lambda index: _cost(*SPARSE_TILES[index], kernel_height, run))
    tile_floats = SPARSE_TILES[tile][1] * LANES
    return Form(
        height=height,
        width=width,
        channels=channels,
        pad=pad,
        outputs=outputs,
        kernel_height=kernel_height,
        kernel_width=kernel_width,
        rows=(height - kernel_height + 1) // cell_side,
        columns=(width - kernel_width + 1) // cell_side,
        cell_side=cell_side,
        rectified=rectified,
        tile=tile,
        tile_runs=SPARSE_TILES[tile][0],
        tile_floats=tile_floats,
        row_floats=-(-run // tile_floats) * tile_floats,
    )


def _cost(runs: int, vectors: int, rows: int, length: int) -> float:
    """The approximate cost, in vector multiplications, of covering `rows` runs of `length` floats with such tiles."""
    tiles = rows // runs * -(-length // (LANES * vectors))
    return tiles * (max(8, runs * vectors) + 2) if rows % runs == 0 else np.inf


# ---------------------------------------------------------------- memory


@compiled
def _group_size(form, samples):
    """How many samples are processed together."""
    return max(1, min(samples, GROUP_PIXELS // (form.rows * form.columns)))


@compiled
def _copy(values, to):
    """to[...] = values, without the check of lengths, which takes seconds to compile."""
    for i in range(len(values)):
        to[i] = values[i]


@compiled
def _pad(form, x, padded):
    """Copies the samples into `padded`, which is flat, holds zeros and may be longer than needed."""
    count, height, width, channels = x.shape
    for sample in range(count):
        for row in range(height):
            start = ((sample * form.height + row + form.pad) * form.width + form.pad) * channels
            _copy(x[sample, row].reshape(width * channels), padded[start : start + width * channels])


@compiled
def _unpad(form, padded, x):
    """The inverse: copies the samples without their padding into `x`."""
    count, height, width, channels = x.shape
    for sample in range(count):
        for row in range(height):
            start = ((sample * form.height + row + form.pad) * form.width + form.pad) * channels
            _copy(padded[start : start + width * channels], x[sample, row].reshape(width * channels))


@compiled
def _cell_starts(form, count, side, extra):
    """Where in the padded samples each cell begins, if cells have this side in pixels; then `extra` zeros."""
    rows, columns = form.rows * form.cell_side // side, form.columns * form.cell_side // side
    starts = np.zeros(count * rows * columns + extra, np.int64)
    for sample in range(count):
        for row in range(rows):
            for column in range(columns):
                start = ((sample * form.height + side * row) * form.width + side * column) * form.channels
                starts[(sample * rows + row) * columns + column] = start
    return starts


# ---------------------------------------------------------------- forward


@compiled
def _window_offsets(form):
    """The offset of each float of a kernel's window from the start of the window, in a padded sample."""
    run = form.kernel_width * form.channels
    offsets = np.empty(form.kernel_height * run, np.int64)
    for row in range(form.kernel_height):
        for k in range(run):
            offsets[row * run + k] = row * form.width * form.channels + k
    return offsets


@compiled
def _strips(weight, width):
    """The kernels (outputs, height, width, channels) as tiles of `width` outputs read them: (strips, depth, width).

    A strip has zeros where there are fewer outputs; the depth counts the floats of a kernel.
    """
    outputs, depth = weight.shape[0], weight[0].size
    strips = np.zeros(((outputs + width - 1) // width, depth, width), np.float32)
    flat = weight.reshape(outputs, depth)
    for output in range(outputs):
        for k in range(depth):
            strips[output // width, k, output % width] = flat[output, k]
    return strips


@compiled
def _convolve(padded, pixel_starts, count, offsets, strips, unpooled):
    """Fills `unpooled` (pixels, outputs of all strips) for the first `count` pixels; the last tile may fill a few rows
    more."""
    depth, stride, width = len(offsets), unpooled.shape[1], strips.shape[2]
    a, at, c = padded.ctypes.data, offsets.ctypes.data, unpooled.ctypes.data
    for strip in range(len(strips)):
        b = strips[strip].ctypes.data
        if width == TILE_OUTPUTS:
            for pixel in range(0, count, TILE_PIXELS):
                starts, to = pixel_starts[pixel:].ctypes.data, c + 4 * (pixel * stride + strip * width)
                _forward_tile(a, starts, at, depth, b, to, stride)
        else:
            for pixel in range(0, count, NARROW_PIXELS):
                starts, to = pixel_starts[pixel:].ctypes.data, c + 4 * (pixel * stride + strip * width)
                _narrow_tile(a, starts, at, depth, b, to, stride)


@compiled
def _pool(form, unpooled, stride, out, argmax):
    """2 x 2 maxima of one sample and which pixel they come from; all by address, `stride` floats per unpooled pixel.

    The last vector of a cell may reach into the next cell, which is written later, or beyond the sample.
    """
    down = 2 * form.columns * stride
    for row in range(form.rows):
        for column in range(form.columns):
            cell = unpooled + 4 * (2 * row * down + 2 * column * stride)
            index = (row * form.columns + column) * form.outputs
            for output in range(0, form.outputs, LANES):
                _max_8(cell + 4 * output, stride, down, out + 4 * (index + output), argmax + index + output)


@compiled
def _add_bias(out, bias, rectified):
    """Adds the bias to each row and applies the ReLU, which keeps a NaN."""
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
def _columns_apart(form, x, planes):
    """Copies one sample (height, width, channels) into `planes` of zeros: (rows, channels, even or odd columns, half a
    row)."""
    (height, width, channels), half = x.shape, planes.shape[3]
    pixels, flat = x.reshape(-1), planes.reshape(-1)
    for row in range(height):
        for channel in range(channels):
            for first in range(2):
                plane = ((row + form.pad) * channels + channel) * 2 + (first + form.pad) % 2
                to = plane * half + (first + form.pad) // 2
                start = (row * width + first) * channels + channel
                for column in range((width - first + 1) // 2):
                    flat[to + column] = pixels[start + 2 * column * channels]


@compiled
def _offsets_in_planes(form, half):
    """The offset of each float of a kernel's window from the start of its row in planes of columns apart: in the window
    of a cell's left pixels, and in that of its right ones."""
    channels, offsets = form.channels, np.empty((form.kernel_height * form.kernel_width * form.channels, 2), np.int64)
    for row in range(form.kernel_height):
        for column in range(form.kernel_width):
            for channel in range(channels):
                k = (row * form.kernel_width + column) * channels + channel
                for right in range(2):
                    plane = (row * channels + channel) * 2 + (column + right) % 2
                    offsets[k, right] = plane * half + (column + right) // 2
    return offsets


@compiled
def _forward_along_cells(form, x, weight, out, argmax):
    """The convolution and its pooling for few outputs: lanes along them would be half empty, so they run along the
    cells of a row. Each sum is made in the same order as by `_convolve`."""
    width = (form.columns + WIDE_LANES - 1) // WIDE_LANES * WIDE_LANES
    planes = np.zeros((form.height, form.channels, 2, width + form.kernel_width // 2 + 1), np.float32)
    offsets, strips, line = _offsets_in_planes(form, planes.shape[3]), _strips(weight, POOLED_OUTPUTS), planes[0].size
    maxima = np.empty((len(strips) * POOLED_OUTPUTS, width), np.float32)
    pixels = np.empty(maxima.shape, np.uint8)
    for sample in range(len(x)):
        _columns_apart(form, x[sample], planes)
        for row in range(form.rows):
            for strip in range(len(strips)):
                for cell in range(0, width, WIDE_LANES):
                    to = strip * POOLED_OUTPUTS * width + cell
                    _pooled_tile(
                        planes.ctypes.data + 4 * (2 * row * line + cell),
                        line,
                        offsets.ctypes.data,
                        len(offsets),
                        strips.ctypes.data + 4 * strip * POOLED_OUTPUTS * len(offsets),
                        maxima.ctypes.data + 4 * to,
                        pixels.ctypes.data + to,
                        width,
                    )
            _turn(maxima, out[sample], row * form.columns, form.columns)
            _turn(pixels, argmax[sample], row * form.columns, form.columns)


@compiled
def _turn(by_output, by_cell, first, count):
    """Copies the beginning of (outputs, cells) into rows first ... first + count - 1 of (cells, outputs)."""
    for cell in range(count):
        for output in range(by_cell.shape[1]):
            by_cell[first + cell, output] = by_output[output, cell]


@compiled
def forward(form: Form, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The convolution, with pooling and ReLU as `form` says: (samples, rows, columns, outputs).

    Also returns which of its four pixels each pooled cell's maximum comes from, for `backward`.
    """
    samples, cells = len(x), form.rows * form.columns
    size, pooled = samples * cells * form.outputs, samples if form.cell_side == 2 else 0
    out = np.empty(size + LANES, np.float32)[:size].reshape(samples, cells, form.outputs)  # `_pool` may write beyond
    argmax = np.empty(size + LANES, np.uint8)[: pooled * cells * form.outputs].reshape(pooled, cells, form.outputs)
    if form.cell_side == 2 and form.outputs <= NARROW_OUTPUTS:
        _forward_along_cells(form, x, weight, out, argmax)
    else:
        _forward_along_outputs(form, x, weight, out, argmax)
    for sample in range(samples):
        _add_bias(out[sample], bias, form.rectified)
    return out.reshape(samples, form.rows, form.columns, form.outputs), argmax


@compiled
def _forward_along_outputs(form, x, weight, out, argmax):
    """The convolution, with its pooling if there is one, some samples at a time."""
    samples, cells, group = len(x), form.rows * form.columns, _group_size(form, len(x))
    padded = np.zeros(group * form.height * form.width * form.channels, np.float32)
    pixel_starts = _cell_starts(form, group, 1, max(TILE_PIXELS, NARROW_PIXELS))
    strips = _strips(weight, TILE_OUTPUTS if form.outputs > NARROW_OUTPUTS else NARROW_OUTPUTS)
    offsets, pixels, stride = _window_offsets(form), cells * form.cell_side**2, len(strips) * strips.shape[2]
    unpooled = np.empty((len(pixel_starts), stride), np.float32)
    for first in range(0, samples, group):
        last = min(first + group, samples)
        _pad(form, x[first:last], padded)
        _convolve(padded, pixel_starts, (last - first) * pixels, offsets, strips, unpooled)
        for sample in range(first, last):
            sample_unpooled = unpooled[(sample - first) * pixels :]
            if form.cell_side == 2:
                _pool(form, sample_unpooled.ctypes.data, stride, out[sample].ctypes.data, argmax[sample].ctypes.data)
            else:
                for cell in range(cells):
                    _copy(sample_unpooled[cell, : form.outputs], out[sample, cell])


# ---------------------------------------------------------------- backward


@compiled
def _add_runs(tile, entries, count, a, a_run, c, c_run):
    """Calls sparse tile number `tile`."""
    if tile == 0:
        _sparse_1x12(entries, count, a, a_run, c, c_run)
    elif tile == 1:
        _sparse_1x10(entries, count, a, a_run, c, c_run)
    elif tile == 2:
        _sparse_1x8(entries, count, a, a_run, c, c_run)
    elif tile == 3:
        _sparse_3x4(entries, count, a, a_run, c, c_run)
    elif tile == 4:
        _sparse_3x2(entries, count, a, a_run, c, c_run)
    elif tile == 5:
        _sparse_3x1(entries, count, a, a_run, c, c_run)
    elif tile == 6:
        _sparse_5x2(entries, count, a, a_run, c, c_run)
    else:
        _sparse_5x1(entries, count, a, a_run, c, c_run)


@compiled
def _through_relu(error, out, cell_error):
    """The error before the ReLU: zero where the ReLU gave zero."""
    zero = np.float32(0)
    for i in range(len(error)):
        cell_error[i] = zero if out[i] <= zero else error[i]


@compiled
def _lists_by_output(form, cell_error, argmax, cell_starts, cells, lists, counts, grad_bias):
    """A sparse list of the error (cells, outputs) for each output; `grad_bias` gains the sums."""
    outputs, right, down, length = form.outputs, form.channels, form.width * form.channels, lists.shape[1]
    error, pixels, starts, vectorised = (
        cell_error.ctypes.data,
        argmax.ctypes.data,
        cell_starts.ctypes.data,
        form.outputs // LANES * LANES,
    )
    for output in range(0, vectorised, LANES):
        _lists_8(
            error + 4 * output,
            pixels + output,
            outputs,
            starts,
            cells,
            right,
            down,
            lists[output].ctypes.data,
            length,
            counts[output:].ctypes.data,
            grad_bias[output:].ctypes.data,
        )
    for output in range(vectorised, outputs):
        _lists_1(
            error + 4 * output,
            pixels + output,
            outputs,
            starts,
            cells,
            right,
            down,
            lists[output].ctypes.data,
            length,
            counts[output:].ctypes.data,
            grad_bias[output:].ctypes.data,
        )


@compiled
def _add_weight_gradient(form, padded, lists, counts, grad_weight):
    """Adds to each kernel's gradient the windows of the samples, times the errors of their cells."""
    line = form.width * form.channels
    for output in range(form.outputs):
        for row in range(0, form.kernel_height, form.tile_runs):
            for column in range(0, form.row_floats, form.tile_floats):
                _add_runs(
                    form.tile,
                    lists[output].ctypes.data,
                    counts[output],
                    padded.ctypes.data + 4 * (row * line + column),
                    line,
                    grad_weight.ctypes.data + 4 * ((output * form.kernel_height + row) * form.row_floats + column),
                    form.row_floats,
                )


@compiled
def _add_input_gradient(form, cell_error, argmax, cell_starts, kernels, lists, counts, grad_padded):
    """Adds to the gradient of the padded samples, in the window of each pixel, the kernels times their errors."""
    outputs, line = form.outputs, form.width * form.channels
    for cell in range(len(cell_starts)):
        sparse_lists_by_pixel(
            cell_error.ctypes.data + 4 * cell * outputs,
            argmax.ctypes.data + cell * outputs,
            outputs,
            form.kernel_height * form.row_floats,
            lists[cell].ctypes.data,
            lists.shape[2],
            counts[cell].ctypes.data,
        )
    for row in range(0, form.kernel_height, form.tile_runs):
        for column in range(0, form.row_floats, form.tile_floats):
            for cell in range(len(cell_starts)):
                for pixel in range(form.cell_side * form.cell_side):
                    start = cell_starts[cell] + pixel % 2 * form.channels + (pixel // 2 + row) * line
                    _add_runs(
                        form.tile,
                        lists[cell, pixel].ctypes.data,
                        counts[cell, pixel],
                        kernels.ctypes.data + 4 * (row * form.row_floats + column),
                        form.row_floats,
                        grad_padded.ctypes.data + 4 * (start + column),
                        line,
                    )


@compiled
def _extend_rows(form, weight):
    """The kernels with zeros at the end of each row, up to whole tiles."""
    extended = np.zeros((form.outputs, form.kernel_height, form.row_floats), np.float32)
    run = form.kernel_width * form.channels
    for output in range(form.outputs):
        for row in range(form.kernel_height):
            _copy(weight[output, row].reshape(run), extended[output, row])
    return extended


@compiled
def _shorten_rows(form, extended):
    """The inverse: the kernels without these zeros."""
    weight = np.empty((form.outputs, form.kernel_height, form.kernel_width * form.channels), np.float32)
    for output in range(form.outputs):
        for row in range(form.kernel_height):
            _copy(extended[output, row, : weight.shape[2]], weight[output, row])
    return weight.reshape(form.outputs, form.kernel_height, form.kernel_width, form.channels)


@compiled
def backward(
    form: Form,
    x: np.ndarray,
    weight: np.ndarray,
    out: np.ndarray,
    argmax: np.ndarray,
    error: np.ndarray,
    wants_x: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of the weights, the biases and, if wanted, the input, from the error at the output.

    `out` and `argmax` are what `forward` returned.
    """
    samples, cells, outputs, group = len(x), form.rows * form.columns, form.outputs, _group_size(form, len(x))
    kernels, grad_bias = _extend_rows(form, weight), np.zeros(outputs, np.float32)
    grad_weight = np.zeros_like(kernels)
    grad_x = np.empty(x.shape if wants_x else (0, 0, 0, 0), np.float32)
    padded = np.zeros(group * form.height * form.width * form.channels + form.row_floats, np.float32)
    grad_padded = np.zeros_like(padded)
    cell_starts = _cell_starts(form, group, form.cell_side, 0)
    cell_error = np.empty(group * cells * outputs, np.float32)
    group_argmax = np.zeros(group * cells * outputs, np.uint8)
    lists, counts = np.empty((outputs, group * cells + 1), np.int64), np.empty(outputs, np.int64)
    pixel_lists = np.empty((CACHED_CELLS, 4, outputs + 1), np.int64)
    pixel_counts = np.empty((CACHED_CELLS, 4), np.int64)
    for first in range(0, samples, group):
        last = min(first + group, samples)
        group_cells = (last - first) * cells
        _pad(form, x[first:last], padded)
        if form.rectified:
            _through_relu(error[first:last].reshape(-1), out[first:last].reshape(-1), cell_error)
        else:
            _copy(error[first:last].reshape(-1), cell_error)
        if form.cell_side == 2:
            group_argmax = argmax[first:last].reshape(-1)
        _lists_by_output(form, cell_error, group_argmax, cell_starts, group_cells, lists, counts, grad_bias)
        _add_weight_gradient(form, padded, lists, counts, grad_weight)
        if wants_x:
            grad_padded[:] = 0
            for cell in range(0, group_cells, CACHED_CELLS):
                _add_input_gradient(
                    form,
                    cell_error[cell * outputs :],
                    group_argmax[cell * outputs :],
                    cell_starts[cell : min(cell + CACHED_CELLS, group_cells)],
                    kernels,
                    pixel_lists,
                    pixel_counts,
                    grad_padded,
                )
            _unpad(form, grad_padded, grad_x[first:last])
    return _shorten_rows(form, grad_weight), grad_bias, grad_x
