"""Lesson 3, correcting the client: what its notebook calls.

- `problem`: corrections on the toy federation, and a small comparison on MNIST
- `pictures`: walks, resting places and noise
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson3.checks import (
    controlled_step,
    my_direction,
    paired_gain,
    proximal_gradient,
    surrogate_gradient,
)
from fedlib.course.lesson3.pictures import (
    curves,
    endurance,
    explored,
    explorer,
    gains_picture,
    gallery,
    noise_picture,
    springs,
    yours,
)
from fedlib.course.lesson3.problem import ROUNDS, acfmo_ablation, acfmo_parts, compared, ends, noise, partly, tuned

__all__ = [
    "ROUNDS",
    "acfmo_ablation",
    "acfmo_parts",
    "compared",
    "controlled_step",
    "curves",
    "ends",
    "endurance",
    "explored",
    "explorer",
    "gains_picture",
    "gallery",
    "my_direction",
    "noise",
    "noise_picture",
    "paired_gain",
    "partly",
    "proximal_gradient",
    "springs",
    "surrogate_gradient",
    "tuned",
    "yours",
]
