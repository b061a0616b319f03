"""The paper's own numbers and formulas, checked: one row per quantity with printed, found and holds."""

from dataclasses import replace
from math import log10

import numpy as np
import pandas as pd

from fedlib import wireless
from fedlib.judging.checks import audit
from fedlib.problem.streams import generator
from fedlib.wireless import Devices, Scenario

PRINTED_CAPACITANCE = 1e-23
BOLTZMANN = 1.380649e-23  # J/K
MNIST_BYTES = 60_000 * 28 * 28


def capacitance(scenario: Scenario) -> pd.DataFrame:
    """A device in the middle of all printed ranges, at 1.5 GHz."""
    middle = np.mean(scenario.cycles_per_bit) * np.mean(scenario.data_megabytes) * 8e6 * scenario.local_iterations
    joules = middle * np.mean(scenario.frequency_hz) ** 2 * PRINTED_CAPACITANCE
    return audit(("joules of computing, one device and round", "at most 100", f"{joules:.3g}", joules <= 100))


def noise() -> pd.DataFrame:
    """Thermal noise kT at 290 K in dBm per Hz."""
    thermal = 10 * log10(BOLTZMANN * 290 * 1000)
    printed = -174 - 60  # per Hz instead of per MHz
    return audit(("dBm/Hz, thermal noise beside printed", f"{printed}", f"{thermal:.1f}", printed >= thermal))


def data_size(devices: int, megabytes: tuple[float, float]) -> pd.DataFrame:
    """What the devices are said to hold against all of MNIST's training images, one byte per pixel."""
    mnist = MNIST_BYTES / 1e6
    low, high = (devices * size for size in megabytes)
    holds = low <= mnist <= high
    return audit((f"MB on {devices} devices", f"{low:.0f} to {high:.0f}", f"MNIST has {mnist:.0f}", holds))


def payload(weights: int) -> pd.DataFrame:
    """Model and gradient as 32-bit numbers."""
    bits = 2 * 32 * weights
    return audit((f"bits of model and gradient, {weights} weights", 500_000, bits, abs(bits / 5e5 - 1) < 0.05))


def references() -> pd.DataFrame:
    """Where the text points to another equation than it means."""
    return audit(
        ("Algorithm 1, line 15: aggregation", "(16), (17)", "(10), (11)", False),
        ("Section 3, the frequency problem follows from", "(31a)", "(23e)", False),
        ("Section 2.1.2, the global model to converge", "(1)", "(2)", False),
    )


def global_rounds() -> pd.DataFrame:
    """(13) has 1/theta in front: the rounds at theta = 0.1 over those at 0.9."""
    ratio = (1 / 0.1) / (1 / 0.9)
    return audit(("rounds at theta 0.1 over rounds at theta 0.9", "below 1", f"{ratio:.0f}", ratio < 1))


def sending_dominates(scenario: Scenario, draws: int, seed: int) -> pd.DataFrame:
    """Joules of sending over joules of computing at average frequency and equal shares, as in Fig. 7."""
    devices = wireless.draw_devices(scenario, generator(seed, "devices"), (draws,))
    sending = np.sum(wireless.transmit_energy_j(devices, wireless.equal_share(devices)), axis=-1)
    computing = np.sum(wireless.compute_energy_j(devices, wireless.average_frequency(devices)), axis=-1)
    ratio = float(np.mean(sending / computing))
    return audit(
        *(
            (f"sending over computing, sigma = {sigma:g}", "above 1", f"{scaled:.2g}", scaled > 1)
            for sigma in (PRINTED_CAPACITANCE, scenario.capacitance)
            for scaled in [ratio * scenario.capacitance / sigma]
        )
    )


def snr_share(scenario: Scenario, radii_km: list[float], draws: int, seed: int) -> pd.DataFrame:
    """Draws in which sharing by SNR sends with less energy than sharing equally; Fig. 8 has it 5% lower."""
    rows = []
    for radius_km in radii_km:
        devices = wireless.draw_devices(replace(scenario, radius_km=radius_km), generator(seed, "devices"), (draws,))
        by_snr, equally = (
            np.sum(wireless.transmit_energy_j(devices, share(devices)), axis=-1)
            for share in (wireless.snr_share, wireless.equal_share)
        )
        wins = int((by_snr < equally).sum())
        quantity = f"draws in which SA beats AA, radius {radius_km:g} km"
        rows.append((quantity, "most", f"{wins} of {draws}", wins > draws / 2))
    return audit(*rows)


def convexity(scenario: Scenario, pairs: int, seed: int) -> pd.DataFrame:
    """Between two plans that meet the deadline, the middle must meet it, too, and cost no more than their mean."""
    rng = generator(seed, "convexity")
    devices = wireless.draw_devices(scenario, rng, (pairs,))
    needs = wireless.feasibility(devices, scenario.deadline_s).share_min
    plans = [_random_plan(devices, needs, scenario.deadline_s, rng) for _ in range(2)]
    share, frequency_hz = ((first + second) / 2 for first, second in zip(*plans, strict=True))
    late = (wireless.delay_s(devices, share, frequency_hz) > scenario.deadline_s * (1 + 1e-12)).any(axis=-1)
    mean = (wireless.energy_j(devices, *plans[0]) + wireless.energy_j(devices, *plans[1])) / 2
    above = wireless.energy_j(devices, share, frequency_hz) > mean * (1 + 1e-12)
    return audit(
        (f"late middles of {pairs} pairs of plans", "some", str(late.sum()), bool(late.any())),
        (f"middles that cost more than the mean, of {pairs}", "some", str(above.sum()), bool(above.any())),
    )


def _random_plan(
    devices: Devices, needs: np.ndarray, deadline_s: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Share and frequency of every device, in time."""
    share = wireless.random_share(devices, rng, needs)
    return share, wireless.random_frequency(devices, rng, wireless.optimal_frequency(devices, share, deadline_s))


def alternation(gaps: pd.DataFrame) -> pd.DataFrame:
    """Mean gap to the joint optimum at each deadline, for the largest cell."""
    largest = gaps[gaps["devices"] == gaps["devices"].max()]
    means = largest.groupby("deadline_s")["gap"].mean()
    rows = [(f"gap at {deadline:g} s", "at most 0.1%", f"{gap:.2%}", gap <= 0.001) for deadline, gap in means.items()]
    return audit(*rows)
