"""Lesson 2, client drift: what its notebook calls.

- `problem`: digits of 24 writers dealt in four ways, and what FedAvg makes of them
- `pictures`: the toy federation, drift on digits, lines between models
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson2.checks import barrier, fedavg_round, fixed_point, harmless, walk
from fedlib.course.lesson2.pictures import (
    budgets,
    drifts,
    explored,
    explorer,
    line_picture,
    resting_places,
    samples,
    unequal_steps,
    work_picture,
)
from fedlib.course.lesson2.problem import DEALS, LR, ROUNDS, STEPS, between, digits, local_work, pairs, trained

__all__ = [
    "DEALS",
    "LR",
    "ROUNDS",
    "STEPS",
    "barrier",
    "between",
    "budgets",
    "digits",
    "drifts",
    "explored",
    "explorer",
    "fedavg_round",
    "fixed_point",
    "harmless",
    "line_picture",
    "local_work",
    "pairs",
    "resting_places",
    "samples",
    "trained",
    "unequal_steps",
    "walk",
    "work_picture",
]
