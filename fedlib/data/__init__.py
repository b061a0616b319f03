"""Where the bytes come from: `load` a data set by name, wherever the nearest verified copy is.

>>> from fedlib import data
>>> data.load("nothing of that kind")
Traceback (most recent call last):
ValueError: 'nothing of that kind' is no name of a data set: use letters, digits, '_', '.' and '-'
"""

from fedlib.data.chain import available, load
from fedlib.data.dataset import Dataset
from fedlib.data.errors import DataNotFound, InvalidDropIn

__all__ = ["DataNotFound", "Dataset", "InvalidDropIn", "available", "load"]
