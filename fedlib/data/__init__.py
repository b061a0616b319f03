"""Data sets: `load(name)` gives a `Dataset` from the nearest verified copy, `available()` lists names,
`fingerprint_of(name)` tells which bytes a name stands for, on disk or not.

`chain` looks for a name in a drop-in file of the user (`dropin`), in the `cache`, then in the `sources` (`vision`,
`registry`, or made here: `handwriting`, `hog`). `known` holds the hashes that `integrity` checks.

>>> from fedlib import data
>>> data.load("nothing of that kind")
Traceback (most recent call last):
ValueError: 'nothing of that kind' is not a valid name of a data set: use letters, digits, '_', '.' and '-'
"""

from fedlib.data.chain import available, fingerprint_of, load
from fedlib.data.dataset import Dataset
from fedlib.data.errors import DataNotFound, InvalidDropIn

__all__ = ["DataNotFound", "Dataset", "InvalidDropIn", "available", "fingerprint_of", "load"]
