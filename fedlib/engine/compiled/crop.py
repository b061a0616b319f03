"""Random crops and flips of stored images, in machine code."""

from fedlib.engine.compiled import compiled


@compiled
def crop_and_flip(x, rows, draws, border, fill, shape, out):
    """out[s] = the image x[rows[s]], shifted as if it had a border of `fill`, and mirrored where draws[s, 2] says so.

    Images are flat rows (height * width * channels); a column of ones behind them, if any, is copied.
    """
    height, width, channels = shape
    size = height * width * channels
    for sample in range(len(rows)):
        image, target = x[rows[sample]], out[sample]
        down, right, mirrored = draws[sample, 0] - border, draws[sample, 1] - border, draws[sample, 2]
        for i in range(height):
            for j in range(width):
                row, column = i + down, (width - 1 - j if mirrored else j) + right
                inside = 0 <= row < height and 0 <= column < width
                first = (row * width + column) * channels
                for channel in range(channels):
                    value = image[first + channel] if inside else fill[channel]
                    target[(i * width + j) * channels + channel] = value
        target[size:] = image[size:]
