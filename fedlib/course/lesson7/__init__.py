"""Lesson 7, the bill: what its notebook calls.

- `problem`: prices of rounds, a radio band, and strategies against stragglers
- `pictures`: messages, energy and time
- `checks`: the checks of its exercises
"""

from fedlib.course.lesson7.checks import best_share, bill, choice, fair_average, staleness
from fedlib.course.lesson7.pictures import (
    bill_bars,
    energy_explorer,
    late_picture,
    one_round,
    plan_bars,
    stale_picture,
    timelines,
    two_devices,
)
from fedlib.course.lesson7.problem import (
    DEADLINES_S,
    PRICES,
    answers_log,
    at_times,
    bills,
    energy_prices,
    late_digits,
    late_table,
    mean_bill,
    outcome,
    over_time,
    paired,
    plans_table,
    price_list,
    round_seconds,
    sending_j,
    snr_at,
    three_plans,
    tuned_race,
    whole_cell,
)

__all__ = [
    "DEADLINES_S",
    "PRICES",
    "answers_log",
    "at_times",
    "best_share",
    "bill",
    "bill_bars",
    "bills",
    "choice",
    "energy_explorer",
    "energy_prices",
    "fair_average",
    "late_digits",
    "late_picture",
    "late_table",
    "mean_bill",
    "one_round",
    "outcome",
    "over_time",
    "paired",
    "plan_bars",
    "plans_table",
    "price_list",
    "round_seconds",
    "sending_j",
    "snr_at",
    "stale_picture",
    "staleness",
    "three_plans",
    "timelines",
    "tuned_race",
    "two_devices",
    "whole_cell",
]
