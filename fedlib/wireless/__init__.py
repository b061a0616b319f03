"""Energy and delay of one federated round over a shared radio band (FCBAFL, Sections 2.2 to 4.2).

Read in this order: `devices` draws who takes part, `energy` says what a round costs, `feasibility` says whether the
deadline can be met at all, `frequency` and `bandwidth` hold the schemes the paper compares, `joint` solves for both
at once.

Every array has the devices on its last axis; leading axes are independent instances (channel draws, deadlines,
settings) and are solved together. `deadline_s` is one number or one an instance. Shares of the band are fractions
that sum to one; all else carries its unit in its name.
"""

from fedlib.wireless.bandwidth import equal_share, optimal_bandwidth, random_share, snr_share
from fedlib.wireless.devices import Devices, Scenario, draw_devices, path_gain
from fedlib.wireless.energy import (
    compute_delay_s,
    compute_energy_j,
    delay_s,
    energy_j,
    rate_bits_per_s,
    transmit_delay_s,
    transmit_energy_j,
)
from fedlib.wireless.feasibility import Feasibility, feasibility
from fedlib.wireless.frequency import average_frequency, optimal_frequency, random_frequency
from fedlib.wireless.joint import alternation, joint_optimum
from fedlib.wireless.plan import Plan

__all__ = [
    "Devices",
    "Feasibility",
    "Plan",
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
