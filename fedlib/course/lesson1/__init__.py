"""Lesson 1, what heterogeneity is: what its notebook calls.

- `problem`: handwritten characters, a split by size, and what a hand costs a model
- `pictures`: maps of splits, pages of handwriting, and sliders
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson1.checks import alpha_for_half, effective, halves, indistinguishable, shares
from fedlib.course.lesson1.pictures import explored, explorer, hands, kinds, lookalikes, maps, numbers
from fedlib.course.lesson1.problem import by_size, familiar_and_foreign, fonts_apart, handwriting

__all__ = [
    "alpha_for_half",
    "by_size",
    "effective",
    "explored",
    "explorer",
    "familiar_and_foreign",
    "fonts_apart",
    "halves",
    "hands",
    "handwriting",
    "indistinguishable",
    "kinds",
    "lookalikes",
    "maps",
    "numbers",
    "shares",
]
