"""Lesson 3, correcting the client: what its notebook calls.

- `problem`: corrections on the toy federation, and a small comparison on MNIST
- `pictures`: walks, resting places and noise
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson3.checks import feddyn_round, my_direction, paired_gain, scaffold_round, spring_rest
from fedlib.course.lesson3.pictures import (
    curves,
    dynamic,
    endurance,
    explored,
    explorer,
    gains_picture,
    gallery,
    noise_picture,
    springs,
    unequal,
    yours,
)
from fedlib.course.lesson3.problem import (
    ROUNDS,
    acfmo_ablation,
    acfmo_parts,
    compared,
    ends,
    fcbafl,
    fedprox,
    noise,
    partly,
    tuned,
)

__all__ = [
    "ROUNDS",
    "acfmo_ablation",
    "acfmo_parts",
    "compared",
    "curves",
    "dynamic",
    "ends",
    "endurance",
    "explored",
    "explorer",
    "fcbafl",
    "feddyn_round",
    "fedprox",
    "gains_picture",
    "gallery",
    "my_direction",
    "noise",
    "noise_picture",
    "paired_gain",
    "partly",
    "scaffold_round",
    "spring_rest",
    "springs",
    "tuned",
    "unequal",
    "yours",
]
