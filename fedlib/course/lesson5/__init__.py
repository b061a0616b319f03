"""Lesson 5, choosing who takes part: what its notebook calls.

- `problem`: two worlds of clients, selectors, and a tournament for them
- `pictures`: who holds what, groups, rewards, and the tournament
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson5.checks import distance, duels, my_selector, next_member, random_distance
from fedlib.course.lesson5.pictures import (
    bandit_picture,
    by_hand,
    groups_picture,
    hand_picture,
    landscape_picture,
    rewards_picture,
    tournament,
    worlds_picture,
)
from fedlib.course.lesson5.problem import SIZE, History, at_random, counts_of, greedy, play, searches

__all__ = [
    "SIZE",
    "History",
    "at_random",
    "bandit_picture",
    "by_hand",
    "counts_of",
    "distance",
    "duels",
    "greedy",
    "groups_picture",
    "hand_picture",
    "landscape_picture",
    "my_selector",
    "next_member",
    "play",
    "random_distance",
    "rewards_picture",
    "searches",
    "tournament",
    "worlds_picture",
]
