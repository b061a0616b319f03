"""What a solver returns: each device's share of the band and its processor frequency."""

from dataclasses import dataclass

import numpy as np

from fedlib.wireless.costs import compute_energy_j, energy_j, transmit_energy_j
from fedlib.wireless.devices import Devices
from fedlib.wireless.feasibility import Feasibility


@dataclass(frozen=True)
class Allocation:
    """Shares and frequencies of one round; NaN where the deadline is out of reach, and `feasibility` says why."""

    devices: Devices
    share: np.ndarray  # b_n
    frequency_hz: np.ndarray  # f_n
    feasibility: Feasibility

    @property
    def transmit_energy_j(self) -> np.ndarray:
        """Objective of P_1, equation (24), one number per instance."""
        return np.sum(transmit_energy_j(self.devices, self.share), axis=-1)

    @property
    def compute_energy_j(self) -> np.ndarray:
        """Objective of P_2, equation (25), one number per instance; NaN where the deadline is out of reach."""
        energy = np.sum(compute_energy_j(self.devices, self.frequency_hz), axis=-1)
        return np.where(self.feasibility.feasible, energy, np.nan)

    @property
    def energy_j(self) -> np.ndarray:
        """Objective of P_0, equation (23), one number per instance."""
        return energy_j(self.devices, self.share, self.frequency_hz)
