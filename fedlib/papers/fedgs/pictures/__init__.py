"""Figures of the FedGS notebooks.

- `sampling` (01_selection): the park, the loop, a super node, Figs. 3 and 4, who takes part.
- `comparison` (02_comparison): Fig. 6, accuracy at equal cost, gradients of batches.
- `hyperparameters` (03_hyperparameters): Figs. 5 and 7.
- `timing` (04_time): Proposition 4, and its sliders.
"""

from fedlib.papers.fedgs.pictures.comparison import family_panels, gradients, prices, tuning
from fedlib.papers.fedgs.pictures.hyperparameters import accuracy_map, rate_maps
from fedlib.papers.fedgs.pictures.sampling import (
    brief_seconds,
    divergences,
    durations,
    initialisers,
    loop,
    over_iterations,
    park,
    participation,
    races,
    super_node,
)
from fedlib.papers.fedgs.pictures.timing import hours_to_target, proposition_4, round_times, timing_explorer

__all__ = [
    "accuracy_map",
    "brief_seconds",
    "divergences",
    "durations",
    "family_panels",
    "gradients",
    "hours_to_target",
    "initialisers",
    "loop",
    "over_iterations",
    "park",
    "participation",
    "prices",
    "proposition_4",
    "races",
    "rate_maps",
    "round_times",
    "super_node",
    "timing_explorer",
    "tuning",
]
