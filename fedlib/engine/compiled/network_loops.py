"""Convolutional networks: the gradient of one minibatch in one call, without Python or autograd between the layers.

Convolutions come first, each with the pooling and the ReLU that follow it (`convolution_loops`), then dense layers with
a ReLU between them (`dense_loops`). A few samples at a time pass through all layers and back, so what lies between the
layers stays in the cache.
"""

import numpy as np

from fedlib.engine.compiled import compiled
from fedlib.engine.compiled import convolution_loops as convolution
from fedlib.engine.compiled import dense_loops as dense
from fedlib.engine.compiled.tiles import outers

PIECE = 64  # samples that pass through the network at a time


@compiled
def gradient(forms, starts, blocks, weights, x, y, share, out):
    """Fills `out` with the gradient of sum_b share_b * cross-entropy_b at flat weights, and returns that sum.

    `forms` and `starts` describe the convolutions and say where in the flat vector each begins; `blocks` are the dense
    layers as in `dense_loops`. Samples are channels-last, (samples, height, width, channels).
    """
    if len(x) == 0:
        out[:] = 0
    kernels, biases = [], []
    for layer in range(len(forms)):
        kernel, bias = _kernels(forms[layer], weights[starts[layer] :])
        kernels.append(kernel)
        biases.append(bias)
    offsets = dense.scratch_layout(blocks, min(len(x), PIECE))
    scratch = np.zeros(offsets[-1], np.float32)
    loss = 0.0
    for first in range(0, len(x), PIECE):
        last = min(first + PIECE, len(x))
        inputs, choices = [x[first:last]], []
        for layer in range(len(forms)):
            output, argmax = convolution.forward(forms[layer], inputs[layer], kernels[layer], biases[layer])
            inputs.append(output)
            choices.append(argmax)
        _flatten(inputs[-1], scratch)
        rows, samples = np.arange(last - first), scratch.ctypes.data
        piece_share, none = share[first:last], np.zeros(0, np.float32)
        loss += dense.errors(blocks, weights, samples, y[first:last], rows, piece_share, scratch, offsets, True)
        dense.collect(blocks, weights, samples, scratch, offsets, len(rows), none, out, first == 0)
        error = _error_of_flat(blocks, weights, scratch, offsets, inputs[-1])
        for layer in range(len(forms) - 1, -1, -1):
            by_kernel, by_bias, error = convolution.backward(
                forms[layer], inputs[layer], kernels[layer], inputs[layer + 1], choices[layer], error, layer > 0
            )
            _store(by_kernel, by_bias, out[starts[layer] :], first == 0)
    return loss


@compiled
def _kernels(form, flat):
    """A convolution's kernels (outputs, height, width, channels) and biases from its block, whose rows are channels x
    height x width and then the bias."""
    height, width, channels = form.kernel_height, form.kernel_width, form.channels
    kernels, biases = np.empty((form.outputs, height, width, channels), np.float32), np.empty(form.outputs, np.float32)
    row = channels * height * width + 1
    for output in range(form.outputs):
        for channel in range(channels):
            for i in range(height):
                for j in range(width):
                    kernels[output, i, j, channel] = flat[output * row + (channel * height + i) * width + j]
        biases[output] = flat[(output + 1) * row - 1]
    return kernels, biases


@compiled
def _store(by_kernel, by_bias, flat, is_first):
    """The inverse, for a gradient: onto what is there, or instead of it."""
    outputs, height, width, channels = by_kernel.shape
    row = channels * height * width + 1
    if is_first:
        flat[: outputs * row] = 0
    for output in range(outputs):
        for channel in range(channels):
            for i in range(height):
                for j in range(width):
                    flat[output * row + (channel * height + i) * width + j] += by_kernel[output, i, j, channel]
        flat[(output + 1) * row - 1] += by_bias[output]


@compiled
def _flatten(output, scratch):
    """The last convolution's output (samples, rows, columns, channels) as the first dense layer's input: of each sample
    channels, rows, columns, and a one."""
    samples, rows, columns, channels = output.shape
    width = channels * rows * columns + 1
    for sample in range(samples):
        for i in range(rows):
            for j in range(columns):
                for channel in range(channels):
                    scratch[sample * width + (channel * rows + i) * columns + j] = output[sample, i, j, channel]
        scratch[(sample + 1) * width - 1] = dense.ONE


@compiled
def _error_of_flat(blocks, weights, scratch, offsets, output):
    """The error at the first dense layer's input, shaped as the last convolution's output."""
    samples, rows, columns, channels = output.shape
    outputs, inputs, layers = blocks[0, 1], blocks[0, 2], len(blocks)
    count = dense.fours(samples)
    flat = np.empty((count, inputs), np.float32)
    error = scratch.ctypes.data + 4 * offsets[layers]
    matrix = weights.ctypes.data + 4 * blocks[0, 0]
    outers(error, outputs, 1, matrix, inputs + 1, flat.ctypes.data, inputs, count, inputs, outputs)
    shaped = np.empty(output.shape, np.float32)
    for sample in range(samples):
        for i in range(rows):
            for j in range(columns):
                for channel in range(channels):
                    shaped[sample, i, j, channel] = flat[sample, (channel * rows + i) * columns + j]
    return shaped
