"""Dense networks: one call trains a client through all its steps, without Python in between.

A client is computed alone, so nothing depends on who trains beside it, on padding or on the number of threads. Blocks
describe the layers as in `layout`, a row (start, outputs, inputs) each: the bias in the last column of a layer, the one
that meets it in the last column of its input.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fedlib.engine.compiled import compiled
from fedlib.engine.compiled.tiles import dots, outers

# ---------------------------------------------------------------- one minibatch through a network


@compiled
def _fours(count):
    """`count` rounded up to whole tiles: rooms have spare rows, whose results nobody reads."""
    return (count + 3) // 4 * 4


@compiled
def places(blocks, batch):
    """Where a room keeps what: the input of each layer, the error at each layer's output, four rows of a gradient, the end."""
    layers = len(blocks)
    found = np.zeros(2 * layers + 2, np.int64)
    for layer in range(layers):
        found[layer + 1] = found[layer] + _fours(batch) * (blocks[layer, 2] + 1)
    for layer in range(layers):
        found[layers + layer + 1] = found[layers + layer] + _fours(batch) * blocks[layer, 1]
    widest = 0
    for layer in range(layers):
        widest = max(widest, blocks[layer, 2] + 1)
    found[2 * layers + 1] = found[2 * layers] + 4 * widest
    return found


@compiled
def _gather(x, rows, room):
    """The samples of a minibatch, side by side at the beginning of a room."""
    width = x.shape[1]
    for place in range(len(rows)):
        room[place * width : (place + 1) * width] = x[rows[place]]


@compiled
def _forward(blocks, weights, room, place, count):
    """From the samples in the room to the logits, which stand where the error of the last layer will."""
    layers, at, zero = len(blocks), room.ctypes.data, np.float32(0)
    for layer in range(layers):
        start, outputs, width = blocks[layer, 0], blocks[layer, 1], blocks[layer, 2] + 1
        last = layer == layers - 1
        to = place[2 * layers - 1] if last else place[layer + 1]
        row = outputs if last else outputs + 1
        dots(
            at + 4 * place[layer], width, weights.ctypes.data + 4 * start, width, at + 4 * to, row,
            _fours(count), outputs, width,
        )  # fmt: skip
        if last:
            return
        hidden = room[to : to + count * row]
        for i in range(len(hidden)):
            hidden[i] = zero if hidden[i] < zero else hidden[i]  # a NaN stays one
        for sample in range(count):
            room[to + sample * row + outputs] = 1


@intrinsic
def _float_of_bits(typing, bits):
    def write(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), write


@intrinsic
def _bits_of_float(typing, value):
    def write(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), write


@compiled
def _exponential(x):
    """exp(x) for x <= 0, to a unit or two in the last place: 2^n exp(r) with |r| <= log(2) / 2, and Taylor's sum for exp(r)."""
    x = np.float32(-87) if x < np.float32(-87) else x
    shifted = x * np.float32(1.4426950408889634) + np.float32(12582912)  # rounds to an integer, which fills the lowest bits
    n = shifted - np.float32(12582912)
    r = (x - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)  # log(2) in two parts: the first has few bits
    total = np.float32(1 / 5040)
    total = total * r + np.float32(1 / 720)
    total = total * r + np.float32(1 / 120)
    total = total * r + np.float32(1 / 24)
    total = total * r + np.float32(1 / 6)
    total = total * r + np.float32(1 / 2)
    total = total * r + np.float32(1)
    total = total * r + np.float32(1)
    return total * _float_of_bits(np.int32((_bits_of_float(shifted) << np.int32(23)) + np.int32(1065353216)))


@compiled
def _softmax(room, at, count, classes):
    """The logits of each sample become probabilities, in place."""
    for first in range(at, at + count * classes, classes):
        top = room[first]
        for j in range(first + 1, first + classes):
            top = room[j] if room[j] > top else top
        for j in range(first, first + classes):
            room[j] -= top
    logits = room[at : at + count * classes]
    for j in range(len(logits)):
        logits[j] = _exponential(logits[j])
    for first in range(at, at + count * classes, classes):
        total = room[first]
        for j in range(first + 1, first + classes):
            total += room[j]
        for j in range(first, first + classes):
            room[j] /= total


@compiled
def _error_below(blocks, weights, room, place, count, layer):
    """The error at the output of the layer below, from the error at this one's: back through weights and rectifier."""
    layers, at = len(blocks), room.ctypes.data
    start, outputs, inputs = blocks[layer, 0], blocks[layer, 1], blocks[layer, 2]
    to, seen = place[layers + layer - 1], place[layer]
    outers(
        at + 4 * place[layers + layer], outputs, 1, weights.ctypes.data + 4 * start, inputs + 1, at + 4 * to, inputs,
        _fours(count), inputs, outputs,
    )  # fmt: skip
    for sample in range(count):
        error, active = room[to + sample * inputs :][:inputs], room[seen + sample * (inputs + 1) :][:inputs]
        for j in range(inputs):
            error[j] = error[j] if active[j] > np.float32(0) else np.float32(0)


@compiled
def _gradient_rows(blocks, room, place, count, layer, row):
    """Rows `row` ... `row` + 3 of a layer's gradient, into the room; returns where in it row 0 would stand."""
    layers, at = len(blocks), room.ctypes.data
    outputs, width = blocks[layer, 1], blocks[layer, 2] + 1
    first = max(0, min(row, outputs - 4))
    outers(
        at + 4 * (place[layers + layer] + first), 1, outputs, at + 4 * place[layer], width, at + 4 * place[2 * layers], width,
        min(4, outputs), width, count,
    )  # fmt: skip
    return place[2 * layers] - first * width


@compiled
def _step(weights, gradient, rate, l2):
    for j in range(len(weights)):
        weights[j] -= rate * (gradient[j] + l2 * weights[j])


@compiled
def _step_with_momentum(weights, velocity, gradient, rate, momentum, l2):
    for j in range(len(weights)):
        velocity[j] = momentum * velocity[j] + (gradient[j] + l2 * weights[j])
        weights[j] -= rate * velocity[j]


# ---------------------------------------------------------------- what the engine calls


@compiled
def descend(blocks, weights, x, y, rows, ends, spans, rates, momentum, l2):
    """Local training of some clients, in place: weights (clients, weights).

    `rows[ends[s - 1] : ends[s]]` are the rows of x in step s; client c takes the steps spans[c] ... spans[c + 1] - 1, each
    with its own rate.
    """
    layers, classes = len(blocks), blocks[-1, 1]
    longest = 0
    for step in range(len(ends)):
        longest = max(longest, ends[step] - (ends[step - 1] if step else 0))
    place = places(blocks, longest)
    room = np.zeros(place[-1], np.float32)
    velocity = np.zeros(weights.shape[1] if momentum else 0, np.float32)
    for client in range(len(weights)):
        own = weights[client]
        velocity[:] = 0
        for step in range(spans[client], spans[client + 1]):
            batch = rows[ends[step - 1] if step else 0 : ends[step]]
            count, rate = len(batch), rates[step]
            _gather(x, batch, room)
            _forward(blocks, own, room, place, count)
            errors = place[2 * layers - 1]
            _softmax(room, errors, count, classes)
            share = np.float32(1) / np.float32(count)
            for sample in range(count):
                room[errors + sample * classes + y[batch[sample]]] -= np.float32(1)
            for j in range(errors, errors + count * classes):
                room[j] *= share
            for layer in range(layers - 1, -1, -1):
                if layer:
                    _error_below(blocks, own, room, place, count, layer)
                for row in range(0, blocks[layer, 1], 4):
                    found = _gradient_rows(blocks, room, place, count, layer, row)
                    width = blocks[layer, 2] + 1
                    first = blocks[layer, 0] + row * width
                    last = blocks[layer, 0] + min(row + 4, blocks[layer, 1]) * width
                    gradient = room[found + row * width :][: last - first]
                    if momentum:
                        _step_with_momentum(own[first:last], velocity[first:last], gradient, rate, momentum, l2)
                    else:
                        _step(own[first:last], gradient, rate, l2)
