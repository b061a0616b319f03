"""Lesson 4, changing the topology: what its notebook calls.

- `problem`: four ways to move a model, what a round of each costs, what a ring forgets
- `pictures`: topologies, races in three currencies, forgetting
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson4.checks import around_the_ring, arrows_of_rings, cost_to_reach, my_rings, weights_of_devices
from fedlib.course.lesson4.pictures import (
    contest,
    forgetting_picture,
    journeys_picture,
    price_explorer,
    race_picture,
    topologies,
    tug_of_war,
)
from fedlib.course.lesson4.problem import (
    CLOUD_PRICE,
    METHODS,
    PROBLEM,
    after,
    classes_seen,
    cost,
    journey,
    method,
    race,
    round_of,
    trainer,
)

__all__ = [
    "CLOUD_PRICE",
    "METHODS",
    "PROBLEM",
    "after",
    "around_the_ring",
    "arrows_of_rings",
    "classes_seen",
    "contest",
    "cost",
    "cost_to_reach",
    "forgetting_picture",
    "journey",
    "journeys_picture",
    "method",
    "my_rings",
    "price_explorer",
    "race",
    "race_picture",
    "round_of",
    "topologies",
    "trainer",
    "tug_of_war",
    "weights_of_devices",
]
