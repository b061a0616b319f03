"""Dense networks: one call trains a client through all its steps, without Python in between.

A client is computed alone, so nothing depends on who trains beside it, on padding or on the number of threads. Blocks
describe the layers as in `problem.layout`, one row (start, outputs, inputs) each: the bias in the last column of a
layer, the one that meets it in the last column of its input.

Scratch buffer layout, for one minibatch at a time: first the samples, unless they can stay where they are, then the
inputs of the layers above, (batch, inputs + 1) each, then the errors at the layers' outputs, (batch, outputs) each, and
at the end some rows of a gradient.
"""

import numpy as np
from llvmlite import ir
from numba import types

from fedlib.engine.compiled import compiled
from fedlib.engine.compiled.tiles import dots, outers, prefetch, typed_intrinsic

ROWS = 8  # of a gradient that are computed together
PIECE = 64  # samples that pass through a network at a time where there are many: they stay in the cache
CACHE_LINE = 64  # bytes
ZERO, ONE = np.float32(0), np.float32(1)


# ---------------------------------------------------------------- what the engine calls


@compiled
def descend(blocks, weights, x, y, rows, first, last, spans, rates, momentum, l2, shift, losses):
    """Local training of some clients, in place: weights (clients, weights).

    Step s is made on the samples rows[first[s] : last[s]] of x, with a rate of its own; client c takes the steps
    spans[c] ... spans[c + 1] - 1. `shift` is added to the gradients: one row for all clients, one each, or none.
    `losses`, if it has any length, receives each client's mean cross-entropy over all samples it has passed through.
    """
    if len(first) == 0:
        losses[:] = np.nan
        return
    offsets = scratch_layout(blocks, np.max(last - first))
    scratch = np.zeros(offsets[-1], np.float32)
    velocity = np.zeros(weights.shape[1] if momentum else 0, np.float32)
    none = np.zeros(0, np.float32)
    for client in range(len(weights)):
        client_weights, samples = weights[client], x.ctypes.data
        client_shift = shift[client % len(shift)] if len(shift) else none
        velocity[:] = 0
        total_loss, seen = 0.0, 0
        for step in range(spans[client], spans[client + 1]):
            batch = rows[first[step] : last[step]]
            share = np.full(len(batch), ONE / np.float32(len(batch)), np.float32)
            if step == spans[client] or first[step] != first[step - 1]:  # else it is the same full batch again
                samples = _gather(x, batch, scratch)
            if step + 1 < len(first):
                _announce(x, rows[first[step + 1] : last[step + 1]])
            loss = errors(blocks, client_weights, samples, y, batch, share, scratch, offsets, len(losses) > 0)
            total_loss, seen = total_loss + loss * len(batch), seen + len(batch)
            for layer in range(len(blocks) - 1, -1, -1):
                if layer:
                    _error_below(blocks, client_weights, scratch, offsets, len(batch), layer, none)
                for row in range(0, blocks[layer, 1], ROWS):
                    computed, target = _gradient_rows(blocks, samples, scratch, offsets, len(batch), layer, row)
                    gradient = scratch[computed]
                    _step(
                        client_weights[target],
                        velocity[target],
                        gradient,
                        client_shift[target],
                        rates[step],
                        momentum,
                        l2,
                    )
        if len(losses):
            losses[client] = total_loss / seen if seen else np.nan


@compiled
def gradients(blocks, weights, x, y, rows, share, first, last, l2, out, losses):
    """Gradient of sum_b share_b * cross-entropy_b + l2/2 * |w|^2 over the samples rows[first[c] : last[c]] of each
    client.

    `losses`, if it has any length, receives each client's weighted sum of cross-entropies.
    """
    none = np.zeros(0, np.float32)
    offsets = scratch_layout(blocks, min(np.max(last - first), PIECE))
    scratch = np.zeros(offsets[-1], np.float32)
    for client in range(len(weights)):
        total_loss = 0.0
        for begin in range(first[client], last[client], PIECE):
            piece = slice(begin, min(begin + PIECE, last[client]))
            samples, is_first = _gather(x, rows[piece], scratch), begin == first[client]
            client_weights, count = weights[client], len(rows[piece])
            total_loss += errors(
                blocks, client_weights, samples, y, rows[piece], share[piece], scratch, offsets, len(losses) > 0
            )
            collect(blocks, client_weights, samples, scratch, offsets, count, none, out[client], is_first)
        if len(losses):
            losses[client] = total_loss
        _pull(out[client], weights[client], l2)


@compiled
def softmax_differences(blocks, weights, reference, x, rows, share, l2, out):
    """`gradients` at weights (clients, weights) less those at a reference, one row for all or one each, for one linear
    layer: the labels cancel, so one product gives it. Rows and share are (clients, batch)."""
    classes, total, none = blocks[0, 1], rows.shape[1], np.zeros(0, np.float32)
    offsets = scratch_layout(blocks, total)
    scratch, at_reference = np.zeros(offsets[-1], np.float32), np.zeros(total * classes, np.float32)
    error = scratch[offsets[1] : offsets[1] + total * classes]
    for client in range(len(weights)):
        samples = _gather(x, rows[client], scratch)
        _forward(blocks, reference[client % len(reference)], samples, scratch, offsets, total)
        _softmax(error, classes)
        at_reference[:] = error
        _forward(blocks, weights[client], samples, scratch, offsets, total)
        _softmax(error, classes)
        for j in range(len(error)):
            error[j] -= at_reference[j]
        _weigh(error, classes, share[client])
        collect(blocks, weights[client], samples, scratch, offsets, total, none, out[client], True)
        _pull(out[client], weights[client], l2)
        _pull(out[client], reference[client % len(reference)], -l2)


@compiled
def logits(blocks, weights, x, out):
    """What one model makes of samples (samples, inputs + 1): (samples, classes)."""
    offsets = scratch_layout(blocks, min(len(x), PIECE))
    scratch = np.zeros(offsets[-1], np.float32)
    for begin in range(0, len(x), PIECE):
        rows, to = np.arange(begin, min(begin + PIECE, len(x))), out[begin : begin + PIECE].ravel()
        _forward(blocks, weights, _gather(x, rows, scratch), scratch, offsets, len(rows))
        to[:] = scratch[offsets[2 * len(blocks) - 1] :][: len(to)]


@compiled
def forward(blocks, weights, x, offsets, scratches):
    """What each client's model makes of its own samples (clients, batch, inputs + 1), left in a scratch buffer each."""
    for client in range(len(weights)):
        samples = x[client].ravel()
        scratches[client, : len(samples)] = samples
        _forward(blocks, weights[client], scratches[client].ctypes.data, scratches[client], offsets, x.shape[1])


@compiled
def backward(blocks, weights, offsets, scratches, logits_error, representation_error, out):
    """The gradients (clients, weights) that belong to derivatives by the logits (clients, batch, classes) that
    `forward` left in the scratches, and by the representations (clients, batch, units)."""
    for client in range(len(weights)):
        error, extra, scratch = logits_error[client].ravel(), representation_error[client].ravel(), scratches[client]
        scratch[offsets[2 * len(blocks) - 1] :][: len(error)] = error
        count = logits_error.shape[1]
        collect(blocks, weights[client], scratch.ctypes.data, scratch, offsets, count, extra, out[client], True)


@compiled
def scratch_layout(blocks, batch):
    """Where a scratch buffer keeps what: each layer's input, the error at each layer's output, gradient rows, its
    end."""
    layers, samples, widest = len(blocks), fours(batch), 0
    offsets = np.zeros(2 * layers + 2, np.int64)
    for layer in range(layers):
        offsets[layer + 1] = offsets[layer] + samples * (blocks[layer, 2] + 1)
        widest = max(widest, blocks[layer, 2] + 1)
    for layer in range(layers):
        offsets[layers + layer + 1] = offsets[layers + layer] + samples * blocks[layer, 1]
    offsets[2 * layers + 1] = offsets[2 * layers] + ROWS * widest
    return offsets


# ---------------------------------------------------------------- one minibatch


@compiled
def fours(count):
    """`count` rounded up to whole tiles: scratches have spare rows, whose results nobody reads."""
    return (count + 3) // 4 * 4


@compiled
def _gather(x, rows, scratch):
    """The address of a minibatch's samples: where they lie, if they lie side by side, else at the beginning of the
    scratch buffer."""
    width, together = x.shape[1], rows[0] + fours(len(rows)) <= len(x)
    for index in range(len(rows)):
        together &= rows[index] == rows[0] + index
    if together:
        return x.ctypes.data + 4 * width * rows[0]
    for index in range(len(rows)):
        scratch[index * width : (index + 1) * width] = x[rows[index]]
    return scratch.ctypes.data


@compiled
def _announce(x, rows):
    """Samples that will be needed soon: the processor may fetch them while it computes."""
    width = 4 * x.shape[1]
    for row in rows:
        for line in range(0, width, CACHE_LINE):
            prefetch(x.ctypes.data + row * width + line)


@compiled
def errors(blocks, weights, samples, y, rows, share, scratch, offsets, wants_loss):
    """Forward, and share_b * (softmax - one-hot) at the logits: the derivative of the weighted cross-entropy, which is
    returned where it is wanted."""
    classes, loss = blocks[-1, 1], 0.0
    _forward(blocks, weights, samples, scratch, offsets, len(rows))
    error = scratch[offsets[2 * len(blocks) - 1] :][: len(rows) * classes]
    if wants_loss:  # log sum_j exp(z_j) - z_label = (z_top - z_label) - log(p_top)
        for sample in range(len(rows)):
            logits = error[sample * classes : (sample + 1) * classes]
            loss += share[sample] * (np.float64(_largest(logits)) - np.float64(logits[y[rows[sample]]]))
    _softmax(error, classes)
    if wants_loss:
        for sample in range(len(rows)):
            loss -= share[sample] * logarithm(_largest(error[sample * classes : (sample + 1) * classes]))
    for sample in range(len(rows)):
        error[sample * classes + y[rows[sample]]] -= ONE
    _weigh(error, classes, share)
    return loss


@compiled
def _largest(values):
    top = values[0]
    for value in values:
        top = value if value > top else top
    return top


@compiled
def _forward(blocks, weights, samples, scratch, offsets, count):
    """From the samples to the logits, which stand where the error of the last layer will."""
    at, layers = scratch.ctypes.data, len(blocks)
    for layer in range(layers):
        outputs, width = blocks[layer, 1], blocks[layer, 2] + 1
        last = layer == layers - 1
        to, row = (offsets[2 * layers - 1], outputs) if last else (offsets[layer + 1], outputs + 1)
        below, matrix = at + 4 * offsets[layer] if layer else samples, weights.ctypes.data + 4 * blocks[layer, 0]
        dots(below, width, matrix, width, at + 4 * to, row, fours(count), outputs, width)
        if not last:
            hidden = scratch[to : to + count * row]
            for j in range(len(hidden)):
                hidden[j] = ZERO if hidden[j] < ZERO else hidden[j]  # a NaN stays one
            hidden[outputs::row] = ONE


@compiled
def _softmax(values, classes):
    """The logits of each sample become probabilities, in place."""
    for first in range(0, len(values), classes):
        logits = values[first : first + classes]
        top = logits[0]
        for j in range(classes):
            top = logits[j] if logits[j] > top else top
        for j in range(classes):
            logits[j] -= top
    for j in range(len(values)):
        values[j] = exponential(values[j])
    for first in range(0, len(values), classes):
        logits = values[first : first + classes]
        total = ZERO
        for j in range(classes):
            total += logits[j]
        for j in range(classes):
            logits[j] /= total


@compiled
def _weigh(error, classes, share):
    for sample in range(len(share)):
        sample_error, weight = error[sample * classes : (sample + 1) * classes], share[sample]
        for j in range(classes):
            sample_error[j] *= weight


@compiled
def _error_below(blocks, weights, scratch, offsets, count, layer, extra):
    """The error at the output of the layer below: back through this layer's weights and the rectifier.

    `extra` is a derivative by that output from elsewhere, or has no length."""
    at, layers = scratch.ctypes.data, len(blocks)
    outputs, inputs = blocks[layer, 1], blocks[layer, 2]
    to, matrix = offsets[layers + layer - 1], weights.ctypes.data + 4 * blocks[layer, 0]
    outers(
        at + 4 * offsets[layers + layer],
        outputs,
        1,
        matrix,
        inputs + 1,
        at + 4 * to,
        inputs,
        fours(count),
        inputs,
        outputs,
    )
    _add(scratch[to : to + len(extra)], extra)
    for sample in range(count):
        error, active = (
            scratch[to + sample * inputs :][:inputs],
            scratch[offsets[layer] + sample * (inputs + 1) :][:inputs],
        )
        for j in range(inputs):
            error[j] = error[j] if active[j] > ZERO else ZERO


@compiled
def _gradient_rows(blocks, samples, scratch, offsets, count, layer, row):
    """Some rows of a layer's gradient, from `row` on: where in the scratch buffer they now are, and where in a flat
    vector they belong. The last ones may have been computed together with some before them."""
    at, layers = scratch.ctypes.data, len(blocks)
    outputs, width = blocks[layer, 1], blocks[layer, 2] + 1
    begin, end = max(0, min(row, outputs - 4)), min(row + ROWS, outputs)
    error, to = offsets[layers + layer] + begin, offsets[2 * layers]
    below = at + 4 * offsets[layer] if layer else samples
    outers(at + 4 * error, 1, outputs, below, width, at + 4 * to, width, end - begin, width, count)
    computed = slice(to + (row - begin) * width, to + (end - begin) * width)
    return computed, slice(blocks[layer, 0] + row * width, blocks[layer, 0] + end * width)


@compiled
def collect(blocks, weights, samples, scratch, offsets, count, representation_error, out, is_first):
    """The gradient that belongs to the errors in the scratch buffer, all layers: onto `out`, or instead of what is
    there."""
    top = len(blocks) - 1
    for layer in range(top, -1, -1):
        if layer:
            _error_below(
                blocks,
                weights,
                scratch,
                offsets,
                count,
                layer,
                representation_error if layer == top else representation_error[:0],
            )
        for row in range(0, blocks[layer, 1], ROWS):
            computed, target = _gradient_rows(blocks, samples, scratch, offsets, count, layer, row)
            if is_first:
                out[target] = scratch[computed]
            else:
                _add(out[target], scratch[computed])


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


# ---------------------------------------------------------------- exponentials and logarithms


@compiled
def exponential(x):
    """exp(x) for x <= 0, to a unit or two in the last place: 2^n exp(r) with |r| <= log(2) / 2, and Taylor's sum for
    exp(r)."""
    x = np.float32(-87) if x < np.float32(-87) else x
    # Adding 1.5 * 2^23 rounds to an integer, which fills the lowest bits.
    shifted = x * np.float32(1.4426950408889634) + np.float32(12582912)
    n = shifted - np.float32(12582912)
    # log(2) in two parts: the first has few bits, so n times it is exact.
    r = (x - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)
    total = np.float32(1 / 5040)
    total = total * r + np.float32(1 / 720)
    total = total * r + np.float32(1 / 120)
    total = total * r + np.float32(1 / 24)
    total = total * r + np.float32(1 / 6)
    total = total * r + np.float32(1 / 2)
    total = total * r + ONE
    total = total * r + ONE
    return total * _float_of_bits(np.int32((_bits_of_float(shifted) << np.int32(23)) + np.int32(1065353216)))


SMALLEST_NORMAL = np.float32(1.17549435e-38)


@compiled
def logarithm(x):
    """log(x) for a float32 in 0 ... 1, in float64: e log(2) + 2 artanh((m - 1) / (m + 1)) for x = 2^e m. Smaller
    numbers than float32 holds in full count as the smallest of these."""
    if x != x:
        return np.float64(x)
    bits = _bits_of_float(max(x, SMALLEST_NORMAL))
    exponent = (bits >> np.int32(23)) - np.int32(127)
    mantissa = np.float64(_float_of_bits(np.int32((bits & np.int32(0x7FFFFF)) | np.int32(0x3F800000))))
    if mantissa > 1.4142135623730951:
        mantissa, exponent = mantissa / 2, exponent + np.int32(1)
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    total = 1 / 15
    for odd in (13, 11, 9, 7, 5, 3, 1):
        total = total * square + 1 / odd
    return exponent * 0.6931471805599453 + 2 * s * total


@typed_intrinsic
def _float_of_bits(typing, bits):
    return types.float32(types.int32), lambda context, builder, signature, values: builder.bitcast(
        values[0], ir.FloatType()
    )


@typed_intrinsic
def _bits_of_float(typing, value):
    return types.int32(types.float32), lambda context, builder, signature, values: builder.bitcast(
        values[0], ir.IntType(32)
    )
