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
    """The printed data sizes of the devices compared with all of MNIST's training images, one byte per pixel."""
    mnist = MNIST_BYTES / 1e6
    low, high = (devices * size for size in megabytes)
    holds = low <= mnist <= high
    return audit((f"MB on {devices} devices", f"{low:.0f} to {high:.0f}", f"MNIST has {mnist:.0f}", holds))


def payload(weights: int) -> pd.DataFrame:
    """Model and gradient as 32-bit numbers."""
    bits = 2 * 32 * weights
    return audit((f"bits of model and gradient, {weights} weights", 500_000, bits, abs(bits / 5e5 - 1) < 0.05))


def references() -> pd.DataFrame:
    """Where the text refers to another equation than it means."""
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
    """If P_0 is convex, the middle of two plans in time is in time, too, and costs no more than their mean."""
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
    """Share and frequency of every device that meet the deadline."""
    share = wireless.random_share(devices, rng, needs)
    return share, wireless.random_frequency(devices, rng, wireless.optimal_frequency(devices, share, deadline_s))


def alternation(gaps: pd.DataFrame) -> pd.DataFrame:
    """Mean gap to the joint optimum at each deadline, for the largest cell and the highest fixed frequency."""
    largest = gaps[(gaps["devices"] == gaps["devices"].max()) & (gaps["fixed_ghz"] == gaps["fixed_ghz"].max())]
    means = largest.groupby("deadline_s")["gap"].mean()
    rows = [(f"gap at {deadline:g} s", "at most 0.1%", f"{gap:.2%}", gap <= 0.001) for deadline, gap in means.items()]
    return audit(*rows)


def closed_form(sweep: pd.DataFrame) -> pd.DataFrame:
    """Draws of Fig. 6 in which max{f_min, f*} of (31) is above f_max, or late, for some device on b = 1/N."""
    points = sweep[(sweep["scheme"] == "OF") & (sweep["sweep"] == "point")]
    rows = []
    for deadline_s, draws in points.groupby("deadline_s"):
        late = int((~draws["in_time"]).sum())
        rows.append((f"draws beyond f_max at {deadline_s:g} s", "none", f"{late} of {len(draws)}", late == 0))
    return audit(*rows)


def constants_as_printed(costs: dict[str, pd.DataFrame], printed: dict[tuple[str, str], float]) -> pd.DataFrame:
    """The mean savings with sigma and N_0 as printed; `costs` are the frames of `results.savings`."""
    rows = []
    for (figure, scheme), value in printed.items():
        sweep = costs[figure]
        saving = float(sweep[(sweep["scheme"] == scheme) & (sweep["sweep"] == "all")]["saving"].mean())
        quantity = f"Fig. {figure[-1]}, saving on {scheme}"
        rows.append((quantity, f"{value:.1%}", f"{saving:.1%}", abs(saving - value) <= 0.01))
    return audit(*rows)


def jensen(scenario: Scenario, on_rf: float, on_af: float, draws: int, seed: int) -> pd.DataFrame:
    """Whether OF can save `on_rf` and `on_af` on RF and AF.

    With f uniform on [f_min, f_max] the mean of f^2 is above the square of the mean, so RF's energy over AF's reveals
    the share of computing in AF's energy; OF saves at most what computing at f_min saves. All are means over draws; the
    last row is about single draws of RF.
    """
    low, high = scenario.frequency_hz
    middle = ((low + high) / 2) ** 2
    excess = (low * low + low * high + high * high) / 3 / middle - 1  # of E[f^2]; 1/27 for 1 and 2 GHz
    most = 1 - low * low / middle  # of the energy of computing
    implied = (1 - on_af) / (1 - on_rf)
    limit = (1 - on_af + 0.0005) / (1 - on_rf - 0.0005)  # as far as rounding allows
    share = on_af / most  # of computing, if OF could run every device at f_min
    bound = (implied - 1) / excess * most
    devices = wireless.draw_devices(scenario, generator(seed, "devices"), (draws,))
    squares = wireless.random_frequency(devices, generator(seed, "frequency")) ** 2
    single = 1 + share * (np.average(squares, axis=-1, weights=devices.cycles) / middle - 1)
    luck = float(np.mean(single <= limit))
    least = f"at least {1 + share * excess:.4f}"
    return audit(
        ("RF over AF, if OF saves that much on AF", f"{implied:.4f}", least, implied >= 1 + share * excess),
        ("most that OF can save on AF, given RF over AF", f"{on_af:.1%}", f"{bound:.1%}", bound >= on_af),
        ("single draws of RF that come out as printed", "some", f"{luck:.0%}", luck > 0),
    )


def quasi_newton() -> pd.DataFrame:
    """(27) and (28) on a quadratic with curvatures 1 and 100: one step of length 1, which such methods try first."""
    curvature, w = np.array([1.0, 100.0]), np.ones(2)
    scales = {"inverse": 1 / curvature, "printed": curvature}
    ends = {name: w - scale * curvature * w for name, scale in scales.items()}
    left = {name: float(np.sum(curvature * end * end) / np.sum(curvature)) for name, end in ends.items()}
    return audit(
        ("(27), the gradient of f(b) has", "one entry, a sum", "one entry per device", False),
        ("(28), loss left by a step", "a part", f"{left['printed']:.0e} times as much", left["printed"] < 1),
        ("(28) with the inverse, loss left", "a part", f"{left['inverse']:.0f}", left["inverse"] < 1),
    )


def strong_convexity() -> pd.DataFrame:
    """The Hessian of softmax's loss in its logits is only positive semi-definite, so mu is zero."""
    chances = np.full(3, 1 / 3)
    smallest = float(np.linalg.eigvalsh(np.diag(chances) - np.outer(chances, chances))[0])
    return audit(("mu of a semi-definite Hessian, softmax", "above 0", f"{abs(smallest):.1f}", smallest > 1e-12))


def proof() -> pd.DataFrame:
    """Where the linear convergence is proved that the contributions claim to prove."""
    return audit(
        ("(8), linear convergence of the local solution", "proved here", "cited from [25]", False),
        ("(9), local iterations", "proved here", "according to [14]", False),
        ("(13), global rounds", "proved here", "the proof is in [14]", False),
    )


def citations() -> pd.DataFrame:
    """What is cited, and the title that the list of references gives."""
    return audit(
        (
            "[16], FedAvg",
            "its source",
            "Communication-Efficient Federated Learning for Wireless Edge Intelligence",
            False,
        ),
        ("[27], L-BFGS-B", "its source", "Max-Min Rate Optimization for Uplink IRS-NOMA", False),
        ("[28], path loss", "its source", "Partial Relay Selection in Decode and Forward Cooperative Networks", False),
        ("[29], MNIST", "its source", "Boosting Accuracy of Differentially Private Federated Learning", False),
    )
