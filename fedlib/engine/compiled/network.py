"""Dense networks: one call trains a client through all its steps, without Python in between.

A client is computed alone, so nothing depends on who trains beside it, on padding or on the number of threads. Blocks
describe the layers as in `layout`, a row (start, outputs, inputs) each: the bias in the last column of a layer, the one
that meets it in the last column of its input.

One minibatch at a time lives in a room: first the samples, unless they can stay where they are, then the inputs of the
layers above, (batch, inputs + 1) each, then the errors at the layers' outputs, (batch, outputs) each, and at the end some
rows of a gradient.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fedlib.engine.compiled import compiled
from fedlib.engine.compiled.tiles import dots, outers, prefetch

ROWS = 8  # of a gradient that are computed together
PIECE = 64  # samples that pass through a network at a time where there are many: they stay in the cache
CACHE_LINE = 64  # bytes
ZERO, ONE = np.float32(0), np.float32(1)


# ---------------------------------------------------------------- what the engine calls


@compiled
def descend(blocks, weights, x, y, rows, first, last, spans, rates, momentum, l2, shift):
    """Local training of some clients, in place: weights (clients, weights).

    Step s is made on the samples rows[first[s] : last[s]] of x, with a rate of its own; client c takes the steps
    spans[c] ... spans[c + 1] - 1. `shift` is added to the gradients: one row for all clients, one each, or none.
    """
    place = places(blocks, np.max(last - first))
    room = np.zeros(place[-1], np.float32)
    velocity = np.zeros(weights.shape[1] if momentum else 0, np.float32)
    none = np.zeros(0, np.float32)
    for client in range(len(weights)):
        own, own_shift, samples = weights[client], shift[client % len(shift)] if len(shift) else none, x.ctypes.data
        velocity[:] = 0
        for step in range(spans[client], spans[client + 1]):
            batch = rows[first[step] : last[step]]
            share = np.full(len(batch), ONE / np.float32(len(batch)), np.float32)
            if step == spans[client] or first[step] != first[step - 1]:  # else it is a full batch again
                samples = _gather(x, batch, room)
            if step + 1 < len(first):
                _announce(x, rows[first[step + 1] : last[step + 1]])
            _errors(blocks, own, samples, y, batch, share, room, place)
            for layer in range(len(blocks) - 1, -1, -1):
                if layer:
                    _error_below(blocks, own, room, place, len(batch), layer, none)
                for row in range(0, blocks[layer, 1], ROWS):
                    here, there = _gradient_rows(blocks, samples, room, place, len(batch), layer, row)
                    _step(own[there], velocity[there], room[here], own_shift[there], rates[step], momentum, l2)


@compiled
def gradients(blocks, weights, x, y, rows, share, first, last, l2, out):
    """Gradient of sum_b share_b * cross-entropy_b + l2/2 * |w|^2 over the samples rows[first[c] : last[c]] of each client."""
    none = np.zeros(0, np.float32)
    place = places(blocks, min(np.max(last - first), PIECE))
    room = np.zeros(place[-1], np.float32)
    for client in range(len(weights)):
        for begin in range(first[client], last[client], PIECE):
            piece = slice(begin, min(begin + PIECE, last[client]))
            samples, anew = _gather(x, rows[piece], room), begin == first[client]
            _errors(blocks, weights[client], samples, y, rows[piece], share[piece], room, place)
            _collect(blocks, weights[client], samples, room, place, len(rows[piece]), none, out[client], anew)
        _pull(out[client], weights[client], l2)


@compiled
def softmax_differences(blocks, weights, reference, x, rows, share, l2, out):
    """`gradients` at weights (clients, weights) less those at a reference, one row for all or one each, for one linear layer:
    the labels cancel, so one product gives it. Rows and share are (clients, batch)."""
    classes, total, none = blocks[0, 1], rows.shape[1], np.zeros(0, np.float32)
    place = places(blocks, total)
    room, there = np.zeros(place[-1], np.float32), np.zeros(total * classes, np.float32)
    error = room[place[1] : place[1] + total * classes]
    for client in range(len(weights)):
        samples = _gather(x, rows[client], room)
        _forward(blocks, reference[client % len(reference)], samples, room, place, total)
        _softmax(error, classes)
        there[:] = error
        _forward(blocks, weights[client], samples, room, place, total)
        _softmax(error, classes)
        for j in range(len(error)):
            error[j] -= there[j]
        _weigh(error, classes, share[client])
        _collect(blocks, weights[client], samples, room, place, total, none, out[client], True)
        _pull(out[client], weights[client], l2)
        _pull(out[client], reference[client % len(reference)], -l2)


@compiled
def logits(blocks, weights, x, out):
    """What one model makes of samples (samples, inputs + 1): (samples, classes)."""
    place = places(blocks, min(len(x), PIECE))
    room = np.zeros(place[-1], np.float32)
    for begin in range(0, len(x), PIECE):
        rows, to = np.arange(begin, min(begin + PIECE, len(x))), out[begin : begin + PIECE].ravel()
        _forward(blocks, weights, _gather(x, rows, room), room, place, len(rows))
        to[:] = room[place[2 * len(blocks) - 1] :][: len(to)]


@compiled
def forward(blocks, weights, x, place, rooms):
    """What each client's model makes of its own samples (clients, batch, inputs + 1), left in a room each."""
    for client in range(len(weights)):
        samples = x[client].ravel()
        rooms[client, : len(samples)] = samples
        _forward(blocks, weights[client], rooms[client].ctypes.data, rooms[client], place, x.shape[1])


@compiled
def backward(blocks, weights, place, rooms, logits_error, seen_error, out):
    """The gradients (clients, weights) that belong to derivatives by the logits (clients, batch, classes) that `forward` left
    in the rooms, and by the representations (clients, batch, units)."""
    for client in range(len(weights)):
        error, extra, room = logits_error[client].ravel(), seen_error[client].ravel(), rooms[client]
        room[place[2 * len(blocks) - 1] :][: len(error)] = error
        count = logits_error.shape[1]
        _collect(blocks, weights[client], room.ctypes.data, room, place, count, extra, out[client], True)


@compiled
def places(blocks, batch):
    """Where a room keeps what: the input of each layer, the error at each layer's output, the gradient's rows, the end."""
    layers, samples, widest = len(blocks), _fours(batch), 0
    found = np.zeros(2 * layers + 2, np.int64)
    for layer in range(layers):
        found[layer + 1] = found[layer] + samples * (blocks[layer, 2] + 1)
        widest = max(widest, blocks[layer, 2] + 1)
    for layer in range(layers):
        found[layers + layer + 1] = found[layers + layer] + samples * blocks[layer, 1]
    found[2 * layers + 1] = found[2 * layers] + ROWS * widest
    return found


# ---------------------------------------------------------------- one minibatch


@compiled
def _fours(count):
    """`count` rounded up to whole tiles: rooms have spare rows, whose results nobody reads."""
    return (count + 3) // 4 * 4


@compiled
def _gather(x, rows, room):
    """The address of a minibatch's samples: where they lie, if they lie side by side, else at the beginning of the room."""
    width, together = x.shape[1], rows[0] + _fours(len(rows)) <= len(x)
    for place in range(len(rows)):
        together &= rows[place] == rows[0] + place
    if together:
        return x.ctypes.data + 4 * width * rows[0]
    for place in range(len(rows)):
        room[place * width : (place + 1) * width] = x[rows[place]]
    return room.ctypes.data


@compiled
def _announce(x, rows):
    """Samples that will be needed soon: the processor may fetch them while it computes."""
    width = 4 * x.shape[1]
    for row in rows:
        for line in range(0, width, CACHE_LINE):
            prefetch(x.ctypes.data + row * width + line)


@compiled
def _errors(blocks, weights, samples, y, rows, share, room, place):
    """Forward, and share_b * (softmax - one-hot) at the logits: the derivative of the weighted cross-entropy."""
    classes = blocks[-1, 1]
    _forward(blocks, weights, samples, room, place, len(rows))
    error = room[place[2 * len(blocks) - 1] :][: len(rows) * classes]
    _softmax(error, classes)
    for sample in range(len(rows)):
        error[sample * classes + y[rows[sample]]] -= ONE
    _weigh(error, classes, share)


@compiled
def _forward(blocks, weights, samples, room, place, count):
    """From the samples to the logits, which stand where the error of the last layer will."""
    at, layers = room.ctypes.data, len(blocks)
    for layer in range(layers):
        outputs, width = blocks[layer, 1], blocks[layer, 2] + 1
        last = layer == layers - 1
        to, row = (place[2 * layers - 1], outputs) if last else (place[layer + 1], outputs + 1)
        below, matrix = at + 4 * place[layer] if layer else samples, weights.ctypes.data + 4 * blocks[layer, 0]
        dots(below, width, matrix, width, at + 4 * to, row, _fours(count), outputs, width)
        if not last:
            hidden = room[to : to + count * row]
            for j in range(len(hidden)):
                hidden[j] = ZERO if hidden[j] < ZERO else hidden[j]  # a NaN stays one
            hidden[outputs::row] = ONE


@compiled
def _softmax(values, classes):
    """The logits of each sample become probabilities, in place."""
    for first in range(0, len(values), classes):
        own = values[first : first + classes]
        top = own[0]
        for j in range(classes):
            top = own[j] if own[j] > top else top
        for j in range(classes):
            own[j] -= top
    for j in range(len(values)):
        values[j] = _exponential(values[j])
    for first in range(0, len(values), classes):
        own = values[first : first + classes]
        total = ZERO
        for j in range(classes):
            total += own[j]
        for j in range(classes):
            own[j] /= total


@compiled
def _weigh(error, classes, share):
    for sample in range(len(share)):
        own, weight = error[sample * classes : (sample + 1) * classes], share[sample]
        for j in range(classes):
            own[j] *= weight


@compiled
def _error_below(blocks, weights, room, place, count, layer, extra):
    """The error at the output of the layer below: back through this layer's weights and the rectifier.

    `extra` is a derivative by that output from elsewhere, or has no length."""
    at, layers = room.ctypes.data, len(blocks)
    outputs, inputs = blocks[layer, 1], blocks[layer, 2]
    to, matrix = place[layers + layer - 1], weights.ctypes.data + 4 * blocks[layer, 0]
    outers(
        at + 4 * place[layers + layer],
        outputs,
        1,
        matrix,
        inputs + 1,
        at + 4 * to,
        inputs,
        _fours(count),
        inputs,
        outputs,
    )
    _add(room[to : to + len(extra)], extra)
    for sample in range(count):
        error, active = room[to + sample * inputs :][:inputs], room[place[layer] + sample * (inputs + 1) :][:inputs]
        for j in range(inputs):
            error[j] = error[j] if active[j] > ZERO else ZERO


@compiled
def _gradient_rows(blocks, samples, room, place, count, layer, row):
    """Some rows of a layer's gradient, from `row` on: where in the room they now are, and where in a flat vector they belong.
    The last ones may have been computed together with some before them."""
    at, layers = room.ctypes.data, len(blocks)
    outputs, width = blocks[layer, 1], blocks[layer, 2] + 1
    begin, end = max(0, min(row, outputs - 4)), min(row + ROWS, outputs)
    error, to = place[layers + layer] + begin, place[2 * layers]
    below = at + 4 * place[layer] if layer else samples
    outers(at + 4 * error, 1, outputs, below, width, at + 4 * to, width, end - begin, width, count)
    here = slice(to + (row - begin) * width, to + (end - begin) * width)
    return here, slice(blocks[layer, 0] + row * width, blocks[layer, 0] + end * width)


@compiled
def _collect(blocks, weights, samples, room, place, count, seen_error, out, anew):
    """The gradient that belongs to the errors in the room, all layers: onto `out`, or instead of what is there."""
    top = len(blocks) - 1
    for layer in range(top, -1, -1):
        if layer:
            _error_below(blocks, weights, room, place, count, layer, seen_error if layer == top else seen_error[:0])
        for row in range(0, blocks[layer, 1], ROWS):
            here, there = _gradient_rows(blocks, samples, room, place, count, layer, row)
            if anew:
                out[there] = room[here]
            else:
                _add(out[there], room[here])


@compiled
def _step(weights, velocity, gradient, shift, rate, momentum, l2):
    """weights -= rate * (gradient + l2 * weights + shift), with momentum where asked for; uses the gradient up."""
    _pull(gradient, weights, l2)
    if len(shift):
        _add(gradient, shift)
    if momentum:
        for j in range(len(weights)):
            velocity[j] = momentum * velocity[j] + gradient[j]
            weights[j] -= rate * velocity[j]
    else:
        for j in range(len(weights)):
            weights[j] -= rate * gradient[j]


@compiled
def _pull(gradient, weights, l2):
    if l2:
        for j in range(len(gradient)):
            gradient[j] += l2 * weights[j]


@compiled
def _add(total, part):
    for j in range(len(total)):
        total[j] += part[j]


# ---------------------------------------------------------------- exponentials


@compiled
def _exponential(x):
    """exp(x) for x <= 0, to a unit or two in the last place: 2^n exp(r) with |r| <= log(2) / 2, and Taylor's sum for exp(r)."""
    x = np.float32(-87) if x < np.float32(-87) else x
    shifted = x * np.float32(1.4426950408889634) + np.float32(
        12582912
    )  # rounds to an integer, which fills the lowest bits
    n = shifted - np.float32(12582912)
    r = (x - n * np.float32(0.693359375)) - n * np.float32(
        -2.12194440e-4
    )  # log(2) in two parts: the first has few bits
    total = np.float32(1 / 5040)
    total = total * r + np.float32(1 / 720)
    total = total * r + np.float32(1 / 120)
    total = total * r + np.float32(1 / 24)
    total = total * r + np.float32(1 / 6)
    total = total * r + np.float32(1 / 2)
    total = total * r + ONE
    total = total * r + ONE
    return total * _float_of_bits(np.int32((_bits_of_float(shifted) << np.int32(23)) + np.int32(1065353216)))


@intrinsic
def _float_of_bits(typing, bits):
    return types.float32(types.int32), lambda context, builder, signature, values: builder.bitcast(
        values[0], ir.FloatType()
    )


@intrinsic
def _bits_of_float(typing, value):
    return types.int32(types.float32), lambda context, builder, signature, values: builder.bitcast(
        values[0], ir.IntType(32)
    )
