"""Readers of the file formats in which the data sets are distributed; damaged input raises `Damaged`."""

import hashlib
import io
import json

import numpy as np
from PIL import Image

from fedlib.data.errors import Damaged

PICTURE_ROWS, PICTURE_PIXELS = 10_000, 32 * 32


def idx(raw: bytes) -> np.ndarray:
    """MNIST's idx format of unsigned bytes: magic 0 0 8 ndim, big-endian sizes, then the data."""
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08" or len(raw) < 4 + 4 * raw[3]:
        raise Damaged("not an idx file of unsigned bytes")
    shape = np.frombuffer(raw, ">u4", count=raw[3], offset=4).astype(np.int64)
    data = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if data.size != shape.prod():
        raise Damaged(f"idx file holds {data.size:,} values where its header says {shape.prod():,}")
    return data.reshape(shape)


def cifar_picture(raw: bytes) -> np.ndarray:
    """10,000 CIFAR images from one lossless RGB picture with one image per row (1024 pixels, row-major)."""
    with Image.open(io.BytesIO(raw), formats=["PNG"]) as picture:
        # Only the header is read so far: a picture of another size is never decompressed.
        if picture.size != (PICTURE_PIXELS, PICTURE_ROWS) or picture.mode != "RGB":
            raise Damaged(f"picture is {picture.size} {picture.mode}, not {(PICTURE_PIXELS, PICTURE_ROWS)} RGB")
        return np.asarray(picture).reshape(PICTURE_ROWS, 32, 32, 3)


def json_labels(raw: bytes) -> np.ndarray:
    """A JSON list of class numbers."""
    return np.array(json.loads(raw), np.uint8)


def order_by_label_and_digest(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Indices that sort samples by (label, SHA-1 of the pixels): one order for data that are found in several."""
    keys = [(int(label), hashlib.sha1(image.tobytes()).digest()) for image, label in zip(images, labels, strict=True)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
