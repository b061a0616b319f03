"""Lesson 6, the server's step: what its notebook calls.

- `problem`: a valley in which servers walk, their race on digits, clients for a loop of one's own
- `pictures`: walks in the valley, the lengths of Adam's steps, tuning and the race
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson6.checks import adam_lengths, momentum_step, my_fedavg, my_server, undecided
from fedlib.course.lesson6.pictures import adam_steps, race_curves, tries_picture, tuning_curves, valley_explorer, walks
from fedlib.course.lesson6.problem import (
    CHOSEN,
    Valley,
    accuracy,
    after,
    digits,
    librarys_accuracy,
    losses,
    race,
    three_servers,
    tries_of_fedavg,
    tries_table,
    tune,
    walk,
    walk_with,
)

__all__ = [
    "CHOSEN",
    "Valley",
    "accuracy",
    "adam_lengths",
    "adam_steps",
    "after",
    "digits",
    "librarys_accuracy",
    "losses",
    "momentum_step",
    "my_fedavg",
    "my_server",
    "race",
    "race_curves",
    "three_servers",
    "tries_of_fedavg",
    "tries_picture",
    "tries_table",
    "tune",
    "tuning_curves",
    "undecided",
    "valley_explorer",
    "walk",
    "walk_with",
    "walks",
]
