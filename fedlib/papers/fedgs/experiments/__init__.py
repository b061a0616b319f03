"""Settings, lists of runs and computations of the FedGS notebooks.

- `sampling` (01_selection): an industrial park, the problems of its factories, and how each sampler solves them.
- `comparison` (02_comparison): FedGS and the rows it is compared with; tuning; gradients of batches.
- `hyperparameters` (03_hyperparameters): the grids of Figs. 5 and 7.
- `timing` (04_time): how long a round takes, Proposition 4.
"""

from fedlib.papers.fedgs.experiments.comparison import (
    ALIKE,
    FEDGS,
    PRINTED_LR,
    RANDOM_GROUPS,
    SERVERS,
    WRITERS,
    FactorySetting,
    Rates,
    at_rate,
    beside_printed,
    gradient_divergences,
    main_rows,
    on_seeds,
    rivals,
    table2,
    tune,
    tuned,
)
from fedlib.papers.fedgs.experiments.hyperparameters import (
    corners,
    over_batch_and_iterations,
    over_groups_and_selected,
    over_learning_rates,
    tune_cells,
)
from fedlib.papers.fedgs.experiments.sampling import (
    Park,
    compare_samplers,
    first_problems,
    groups_at_once,
    initialiser_curves,
    initialiser_times,
    over_iterations,
    participations,
    samplers,
    super_node,
    traces,
    training_share,
)
from fedlib.papers.fedgs.experiments.timing import RoundTiming, sweep

__all__ = [
    "ALIKE",
    "FEDGS",
    "PRINTED_LR",
    "RANDOM_GROUPS",
    "SERVERS",
    "WRITERS",
    "FactorySetting",
    "Park",
    "Rates",
    "RoundTiming",
    "at_rate",
    "beside_printed",
    "compare_samplers",
    "corners",
    "first_problems",
    "gradient_divergences",
    "groups_at_once",
    "initialiser_curves",
    "initialiser_times",
    "main_rows",
    "on_seeds",
    "over_batch_and_iterations",
    "over_groups_and_selected",
    "over_iterations",
    "over_learning_rates",
    "participations",
    "rivals",
    "samplers",
    "super_node",
    "sweep",
    "table2",
    "traces",
    "training_share",
    "tune",
    "tune_cells",
    "tuned",
]
