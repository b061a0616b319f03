"""Lesson 8, who loses and what leaks: what its notebook calls.

- `problem`: clients that hold their digits upside down, and servers that look closely
- `pictures`: clients one by one, and what a server can see
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson8.checks import fair_weights, mask, needs, reveal, three_accuracies
from fedlib.course.lesson8.pictures import (
    explorer,
    labels_picture,
    leaks_picture,
    leaks_table,
    masks_picture,
    measures_picture,
    one_by_one,
    samples,
    who_gains,
)
from fedlib.course.lesson8.problem import CLIENTS, fairer, gains, label_guesses, personalised, served, update_of, world

__all__ = [
    "CLIENTS",
    "explorer",
    "fair_weights",
    "fairer",
    "gains",
    "label_guesses",
    "labels_picture",
    "leaks_picture",
    "leaks_table",
    "mask",
    "masks_picture",
    "measures_picture",
    "needs",
    "one_by_one",
    "personalised",
    "reveal",
    "samples",
    "served",
    "three_accuracies",
    "update_of",
    "who_gains",
    "world",
]
