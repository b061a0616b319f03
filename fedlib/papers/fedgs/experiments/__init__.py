"""Settings, lists of runs and computations of the FedGS notebooks.

- `sampling` (01_selection): an industrial park, the problems of its factories, and what each sampler makes of them.
- `comparison` (02_comparison): FedGS and the rows it is compared with.
- `hyperparameters` (03_hyperparameters): the grids of Figs. 5 and 7.
- `timing` (04_time): how long a round takes, Proposition 4.
"""

from fedlib.papers.fedgs.experiments.comparison import (
    FEDGS,
    FactorySetting,
    beside_printed,
    chosen_at_random,
    table2,
    table2_rows,
)
from fedlib.papers.fedgs.experiments.hyperparameters import (
    over_batch_and_iterations,
    over_groups_and_selected,
    over_learning_rates,
    tune,
)
from fedlib.papers.fedgs.experiments.sampling import (
    Park,
    compare_samplers,
    first_problems,
    groups_at_once,
    initialiser_curves,
    initialiser_times,
    participations,
    samplers,
    super_node,
    traces,
    training_share,
)
from fedlib.papers.fedgs.experiments.timing import RoundTiming, sweep

__all__ = [
    "FEDGS",
    "FactorySetting",
    "Park",
    "RoundTiming",
    "beside_printed",
    "chosen_at_random",
    "compare_samplers",
    "first_problems",
    "groups_at_once",
    "initialiser_curves",
    "initialiser_times",
    "over_batch_and_iterations",
    "over_groups_and_selected",
    "over_learning_rates",
    "participations",
    "samplers",
    "super_node",
    "sweep",
    "table2",
    "table2_rows",
    "traces",
    "training_share",
    "tune",
]
