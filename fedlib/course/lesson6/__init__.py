"""Lesson 6, the server's step and the bill: what its notebook calls.

- `problem`: a valley in which servers walk, their race on digits, prices, a radio band
- `pictures`: walks in the valley, the race, bills, and energy
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson6.checks import adam_step, best_share, bill, choice, momentum_step
from fedlib.course.lesson6.pictures import (
    bill_bars,
    energy_explorer,
    plan_bars,
    race_curves,
    tuning_curves,
    two_devices,
    valley_explorer,
    walks,
)
from fedlib.course.lesson6.problem import (
    DEADLINES_S,
    PRICES,
    Valley,
    after,
    bills,
    energy_prices,
    losses,
    mean_bill,
    outcome,
    plans_table,
    price_list,
    race,
    sending_j,
    snr_at,
    three_plans,
    three_servers,
    tries_table,
    tune,
    walk,
    walk_with,
    whole_cell,
)

__all__ = [
    "DEADLINES_S",
    "PRICES",
    "Valley",
    "adam_step",
    "after",
    "best_share",
    "bill",
    "bill_bars",
    "bills",
    "choice",
    "energy_explorer",
    "energy_prices",
    "losses",
    "mean_bill",
    "momentum_step",
    "outcome",
    "plan_bars",
    "plans_table",
    "price_list",
    "race",
    "race_curves",
    "sending_j",
    "snr_at",
    "three_plans",
    "three_servers",
    "tries_table",
    "tune",
    "tuning_curves",
    "two_devices",
    "valley_explorer",
    "walk",
    "walk_with",
    "walks",
    "whole_cell",
]
