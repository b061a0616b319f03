"""Bytes of stored images as the numbers that a network takes, in machine code."""

from fedlib.engine.compiled import compiled


@compiled
def look_up(pixels, table, out):
    """out[p, c] = table[pixels[p, c], c] for pixels (pixels, channels) and a table (256, channels)."""
    for pixel in range(len(pixels)):
        for channel in range(table.shape[1]):
            out[pixel, channel] = table[pixels[pixel, channel], channel]
