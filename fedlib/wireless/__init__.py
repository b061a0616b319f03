"""Energy and delay of one federated round over a shared radio band (FCBAFL, Sections 2.2 to 4.2).

Call `draw_devices(scenario, rng)` for the devices of a cell, then a solver: `joint_optimum`, `alternation` (the paper's
way) or `optimal_bandwidth` return an `Allocation`; `feasibility` says whether the deadline can be met at all.

`devices` draws who takes part, `costs` computes what a round costs, `frequency` and `bandwidth` hold the schemes the
paper compares, `joint` solves for both at once, `monotone` finds the roots they need.

Every array has the devices on its last axis; leading axes are independent instances (channel draws, deadlines,
settings) and are solved together. `deadline_s` is one number, or one per instance. Shares of the band are fractions
that sum to one; all else carries its unit in its name.
"""

from fedlib.wireless.allocation import Allocation
from fedlib.wireless.bandwidth import equal_share, optimal_bandwidth, random_share, snr_share
from fedlib.wireless.costs import (
    compute_delay_s,
    compute_energy_j,
    delay_s,
    energy_j,
    rate_bits_per_s,
    transmit_delay_s,
    transmit_energy_j,
)
from fedlib.wireless.devices import Devices, Scenario, draw_devices, path_gain
from fedlib.wireless.feasibility import Feasibility, feasibility
from fedlib.wireless.frequency import average_frequency, hurried_frequency, optimal_frequency, random_frequency
from fedlib.wireless.joint import alternation, joint_optimum

__all__ = [
    "Allocation",
    "Devices",
    "Feasibility",
    "Scenario",
    "alternation",
    "average_frequency",
    "compute_delay_s",
    "compute_energy_j",
    "delay_s",
    "draw_devices",
    "energy_j",
    "equal_share",
    "feasibility",
    "hurried_frequency",
    "joint_optimum",
    "optimal_bandwidth",
    "optimal_frequency",
    "path_gain",
    "random_frequency",
    "random_share",
    "rate_bits_per_s",
    "snr_share",
    "transmit_delay_s",
    "transmit_energy_j",
]
