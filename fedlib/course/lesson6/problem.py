"""Lesson 6, the server's step and the bill: a valley in which servers walk, their race on digits, prices, a band.

The methods of `fedlib.algorithms.fedopt` themselves walk in the valley: `InTheValley` replaces their clients, nothing
else.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from math import cos, log2, radians, sin
from typing import Any, cast

import numpy as np
import pandas as pd
import torch

from fedlib import wireless
from fedlib.algorithms import REGISTRY, create
from fedlib.judging import transfers
from fedlib.judging.curves import rounds_to
from fedlib.judging.statistics import estimate
from fedlib.problem.federation import Federation, federate
from fedlib.problem.streams import generator
from fedlib.runs import tuning
from fedlib.runs.study import Run
from fedlib.runs.tuning import Sweep
from fedlib.wireless import Scenario
from fedlib.wireless.devices import WATT_PER_DBM


@dataclass(frozen=True)
class Valley:
    """Ten clients with losses (w - m_i)' H (w - m_i) / 2: one steep and one flat direction; the m_i have mean 0."""

    angle: float = 0.0  # degrees by which the valley is turned against the axes
    present: int = 3  # clients that answer in a round
    steps: int = 10  # local steps per round
    lr: float = 0.2  # the clients' rate
    seed: int = 0

    @property
    def turn(self) -> np.ndarray:
        """From (steep, flat) to the two weights."""
        angle = radians(self.angle)
        return np.array([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]])

    @property
    def curvature(self) -> np.ndarray:
        """H: a step across the valley changes the loss fifty times as much as one along it."""
        return self.turn @ np.diag([1.0, 0.02]) @ self.turn.T

    @property
    def minima(self) -> np.ndarray:
        """m_i: the clients disagree about where the bottom of the valley is."""
        drawn = generator(self.seed, "valley").normal(size=(10, 2)) * [1.0, 2.0]
        return (drawn - drawn.mean(0)) @ self.turn.T

    @property
    def start(self) -> torch.Tensor:
        return torch.as_tensor(self.turn @ [-2.0, -9.0])

    def models(self, weights: torch.Tensor, round: int) -> torch.Tensor:
        """Where the round's clients take the server's model with their local steps, one row per client."""
        chosen = generator(self.seed, "valley clients", round).choice(10, self.present, replace=False)
        minima = self.minima[np.sort(chosen)]
        left = np.linalg.matrix_power(np.eye(2) - self.lr * self.curvature, self.steps)
        return torch.as_tensor(minima + (weights.numpy() - minima) @ left)

    def loss(self, path: np.ndarray) -> np.ndarray:
        """The mean of the clients' losses above its minimum, for every point of a path."""
        return np.einsum("...i,ij,...j->...", path, self.curvature, path) / 2


class InTheValley:
    """The clients of the valley for a method of the FedOpt family: what the server sees is their average change."""

    def change(self, valley: Valley, state: dict, round: int) -> torch.Tensor:
        return valley.models(state["weights"], round).mean(0) - state["weights"]


def walk(method: str, valley: Valley, rounds: int, **options) -> np.ndarray:
    """The server's weights, before the first round and after each: (rounds + 1, 2)."""
    server = type(method, (InTheValley, REGISTRY[method]), {})(**options)
    federation = cast(Federation, valley)  # it has a start, all that a server of this family asks for
    state = server.init(federation)
    path = [state["weights"]]
    for round in range(1, rounds + 1):
        state = server.round(federation, state, round)
        path.append(state["weights"])
    return torch.stack(path).numpy()


def walk_with(
    step: Callable, valley: Valley, rounds: int, server_lr: float, beta1: float, beta2: float, tau: float
) -> np.ndarray:
    """The same for an Adam step that a student wrote: step(w, m, v, delta, server_lr, beta1, beta2, tau)."""
    w, m, v = valley.start, torch.zeros(2), torch.full((2,), tau**2)
    path = [w]
    for round in range(1, rounds + 1):
        w, m, v = step(w, m, v, valley.models(w, round).mean(0) - w, server_lr, beta1, beta2, tau)
        path.append(w)
    return torch.stack(path).numpy()


def losses(paths: dict[str, np.ndarray], valley: Valley) -> pd.DataFrame:
    """What a picture of walks shows, in numbers: the loss above the minimum along the way."""
    last = len(next(iter(paths.values()))) - 1
    rounds = [0, *(round for round in (5, 10, 20) if round < last), last]
    shown = {name: valley.loss(path)[rounds] for name, path in paths.items()}
    return pd.DataFrame(shown, [f"round {round}" for round in rounds]).T.rename_axis("loss above the minimum").round(2)


def three_servers(valley: Valley, rounds: int, beta: float, server_lr: float) -> dict[str, np.ndarray]:
    """FedAvg, FedAvgM and FedAdam. With the rate 1 - beta FedAvgM's steps are in the long run as long as FedAvg's."""
    return {
        "FedAvg": walk("fedopt", valley, rounds),
        f"FedAvgM, beta = {beta:g}, rate {1 - beta:.2g}": walk(
            "fedavgm", valley, rounds, beta=beta, server_lr=1 - beta
        ),
        f"FedAdam, rate {server_lr:.2g}": walk("fedadam", valley, rounds, server_lr=server_lr),
    }


PROBLEM = {
    "data_set": "mnist",
    "partitioner": "dirichlet_clients",
    "clients": 100,
    "alpha": 0.1,
    "network": "softmax",
    "samples": 4000,
    "test_samples": 2000,
}
LOCAL = {"participation": 0.1, "steps": 10, "batch": 16}
PRESENT = 10  # clients in a round: the participation of LOCAL
TUNING_SEEDS = (100, 101)  # no result uses them


@dataclass(frozen=True)
class Server:
    """A method of the race: its name in the library, the options that stay fixed, and the values that may be tried."""

    algorithm: str
    grid: dict[str, list[float]]
    fixed: dict[str, Any] = field(default_factory=dict)


CLIENT_RATES = [0.1, 0.3, 1.0]
SERVER_RATES = [0.01, 0.03, 0.1]  # of servers that scale their steps
ADAPTIVE = {"lr": CLIENT_RATES, "server_lr": SERVER_RATES}
SERVERS = {  # nine tries each; all may tune the clients' rate
    "FedAvg": Server("fedavg", {"lr": [0.03, 0.06, 0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 3.0]}),
    "FedAvgM": Server("fedavgm", {"lr": CLIENT_RATES, "server_lr": [0.1, 0.3, 1.0]}),
    "FedAdagrad": Server("fedadagrad", ADAPTIVE),
    "FedAdam": Server("fedadam", ADAPTIVE),
    "FedYogi": Server("fedyogi", ADAPTIVE),
    "FCBAFL": Server("fcbafl", {"lr": [0.03, 0.1, 0.3], "eta": [0.3, 1.0, 3.0]}),
    "ACFMO": Server("acfmo", {"lr": [0.02, 0.2, 2.0], "server_lr": SERVER_RATES}, {"variant": "current"}),
}


def run(name: str, seed: int, rounds: int, every: int = 1, **tuned: float) -> Run:
    """One run of a server of the race."""
    server = SERVERS[name]
    return Run(server.algorithm, PROBLEM, rounds, seed, LOCAL | server.fixed | tuned, every, {"method": name} | tuned)


def tune(rounds: int) -> Sweep:
    """Nine tries for every server on held-out training samples, and more where the best lies at an end of its grid."""
    methods = {name: run(name, TUNING_SEEDS[0], rounds, every=rounds) for name in SERVERS}
    return tuning.tune(methods, {name: server.grid for name, server in SERVERS.items()}, TUNING_SEEDS)


def tries_table(tuned: Sweep) -> pd.DataFrame:
    """How many tries each method had, its worst, its median and its best, and the rates of the best."""
    rows = {}
    for name, scores in tuned.means().groupby("method", sort=False)["score"]:
        spread = {f"{word}, %": f"{100 * value:.1f}" for word, value in scores.agg(["min", "median", "max"]).items()}
        rows[name] = {"tries": len(scores)} | spread | {"best": _options_of(tuned.best[name])}
    return pd.DataFrame(rows).T.loc[list(SERVERS)].rename_axis("held-out accuracy of")


def _options_of(point: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in point.items())


def race(chosen: dict[str, dict[str, Any]], rounds: int, seeds: range) -> list[Run]:
    """Every server with its chosen options, on every seed."""
    return [run(name, seed, rounds, **tuned) for seed in seeds for name, tuned in chosen.items()]


def after(method: str, seed: int, rounds: int, **options) -> torch.Tensor:
    """The server's weights after some rounds of the race's problem."""
    server, federation = create(method, **LOCAL, **options), federate(**PROBLEM, seed=seed)
    state = server.init(federation)
    for round in range(1, rounds + 1):
        state = server.round(federation, state, round)
    return state["weights"]


MODEL_BITS = 32 * 7850  # softmax regression on 784 pixels and a one, ten classes


@dataclass(frozen=True)
class Price:
    """What one round asks of a participant: vectors of the model's size, and passes over its own data."""

    down: int
    up: int
    passes: int

    @property
    def models(self) -> int:
        """Vectors sent in a round, to and from all participants; the star of `transfers` sends one down and one up."""
        star = transfers.per_round(create("fedavg", **LOCAL), PROBLEM["clients"])
        return star * (self.down + self.up) // 2


# Ten batches of 16 are four passes over a client's 40 samples.
AVERAGE = Price(down=1, up=1, passes=4)  # model down, model up; what the server remembers is not sent
PRICES = {
    "FedAvg": AVERAGE,
    "FedAvgM": AVERAGE,
    "FedAdagrad": AVERAGE,
    "FedAdam": AVERAGE,
    "FedYogi": AVERAGE,
    "FCBAFL": Price(down=2, up=2, passes=6),  # model and gradient both ways; a gradient before and one after the steps
    "ACFMO": Price(
        down=3, up=2, passes=9
    ),  # model; gradient; accelerated model and anchor; model. Steps take two gradients
}


def cell(method: str, deadline_s: float, radius_km: float = 0.5, devices: int = PRESENT) -> Scenario:
    """FCBAFL's radio cell with the participants of a round; what they compute and send is the method's."""
    price = PRICES[method]
    bits = price.up * MODEL_BITS
    return Scenario(
        devices=devices, radius_km=radius_km, deadline_s=deadline_s, local_iterations=price.passes, payload_bits=bits
    )


def plan(method: str, deadline_s: float) -> wireless.Allocation:
    """The cheapest way for ten participants to make a round of the method in time."""
    return wireless.joint_optimum(wireless.draw_devices(cell(method, deadline_s), generator(0, "devices")), deadline_s)


def joules(method: str, deadline_s: float) -> float:
    """Energy of all participants in one round at the optimal plan; NaN where the deadline cannot be met."""
    return float(plan(method, deadline_s).energy_j)


def price_list() -> pd.DataFrame:
    """What a round of each method asks of one participant, and what all send together."""
    rows = {name: asdict(price) | {"models sent": price.models} for name, price in PRICES.items()}
    return pd.DataFrame(rows).T.rename_axis("a round of")


def energy_prices(deadlines_s: list[float]) -> pd.DataFrame:
    """Joules of a round of each method at each deadline, "-" where it cannot be met."""
    rows = {name: {f"{each:g} s": joules(name, each) for each in deadlines_s} for name in PRICES}
    return (
        pd.DataFrame(rows).T.rename_axis("joules per round").map(lambda value: "-" if np.isnan(value) else f"{value:.1f}")
    )


def bills(frame: pd.DataFrame, target: float) -> pd.DataFrame:
    """Rounds until the target is first reached, their 95% interval over seeds, and the models sent until then.

    Empty where some seed never gets there.
    """
    rows = {}
    for name, runs in frame.groupby("method", sort=False):
        arrivals = [rounds_to(one_seed, target) for _, one_seed in runs.groupby("seed")]
        finished = [rounds for rounds, reached in arrivals if reached]
        mean, low, high = mean_and_interval(finished) if len(finished) == len(arrivals) else [np.nan] * 3
        price = PRICES[name].models
        rows[name] = {"rounds": mean, "low": low, "high": high, "models sent": mean * price}
        rows[name] |= {"models low": low * price, "models high": high * price, "seeds that arrive": len(finished)}
    return pd.DataFrame(rows).T.rename_axis(f"to reach {target:.0%}").round(1)


def mean_and_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean and the two ends of its 95% interval; of a single value the value."""
    found = estimate(np.array(values))
    return found.mean, *(found.interval() or (found.mean, found.mean))


def mean_bill(bills: list[int | None]) -> str:
    """The mean of the seeds' bills; "never" where one of them has none."""
    due = [bill for bill in bills if bill is not None]
    return f"{np.mean(due):.0f}" if len(due) == len(bills) else "never"


BAND_HZ, POWER_W = 1e6, 0.5


def sending_j(share: float, snr: float, bits: float = 5e5) -> float:
    """Joules for sending `bits` on a share of the band; `snr` is signal to noise on the whole band."""
    return POWER_W * bits / (share * BAND_HZ * log2(1 + snr / share))


def snr_at(distance_km: float) -> float:
    """Signal to noise on the whole band at a distance, with the path loss of the paper and no fading."""
    noise_w = BAND_HZ * WATT_PER_DBM * 10 ** (Scenario.noise_dbm_per_hz / 10)
    return float(POWER_W * wireless.path_gain(distance_km) / noise_w)


def three_plans(scenario: Scenario, seed: int) -> tuple[pd.DataFrame, str]:
    """Joules of sending and computing when everybody hurries, when everybody is just in time, and at the optimum."""
    devices, deadline_s = wireless.draw_devices(scenario, generator(seed, "devices")), scenario.deadline_s
    equal, optimum = wireless.equal_share(devices), wireless.joint_optimum(devices, deadline_s)
    slowest = wireless.optimal_frequency(devices, equal, deadline_s)
    late = int(np.isnan(slowest).sum())
    slowest = np.where(np.isnan(slowest), devices.frequency_max_hz, slowest)
    plans = {
        "equal shares,\nfull speed": (equal, devices.frequency_max_hz),
        "equal shares,\njust in time": (equal, slowest),
        "optimal shares\nand speeds": (optimum.share, optimum.frequency_hz),
    }
    rows = {
        name: {
            "sending": wireless.transmit_energy_j(devices, share).sum(),
            "computing": wireless.compute_energy_j(devices, speed).sum(),
        }
        for name, (share, speed) in plans.items()
    }
    text = f"Equal shares make {late} of {scenario.devices} devices late. {optimum.feasibility.explain()}"
    return pd.DataFrame(rows).T, text


def plans_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The bars in numbers, with what each plan saves."""
    total = frame.sum(axis=1, skipna=False)
    table = frame.assign(total=total).round(1)
    for position, rival in enumerate(("first", "second")):
        saved = 100 * (1 - total / total.iloc[position])
        table[f"saved on the {rival}, %"] = ["" if row <= position else f"{each:.1f}" for row, each in enumerate(saved)]
    return table.rename(index=lambda name: name.replace("\n", " ")).rename_axis("plan")


def whole_cell(deadline_s: float, radius_km: float, devices: int) -> Scenario:
    """FCBAFL's cell as the paper has it: twenty iterations, model and gradient in 500,000 bits."""
    return Scenario(devices=devices, radius_km=radius_km, deadline_s=deadline_s)


ENERGY_J, TIME_S = 150.0, 120.0  # what all participants together may spend, and how long everything may take


def longest_training(method: str) -> tuple[float, int]:
    """The deadline (to a tenth of a second) with which both budgets pay for most rounds, and how many these are."""
    deadlines_s = np.arange(20, 301) / 10
    devices = wireless.draw_devices(cell(method, deadlines_s[0]), generator(0, "devices"))
    energy_j = wireless.joint_optimum(devices[None], deadlines_s).energy_j
    rounds = np.floor(np.nan_to_num(np.minimum(TIME_S / deadlines_s, ENERGY_J / energy_j)) + 1e-9)
    longest = np.flatnonzero(rounds == rounds.max())[-1]  # among equals, the deadline that needs least energy
    return float(deadlines_s[longest]), int(rounds[longest])


DEADLINES_S = [4, 5, 6, 8, 10, 12, 15]  # of the price list


def numbers_of(method: str) -> set[float]:
    """What the lesson tells about a method's cost: models and passes per round, joules as printed, most rounds."""
    price = PRICES[method]
    told = [joules(method, deadline_s) for deadline_s in DEADLINES_S]
    printed = {round(energy_j, digits) for energy_j in told if not np.isnan(energy_j) for digits in (0, 1)}
    return printed | {float(price.models), float(price.passes), float(longest_training(method)[1])}


def outcome(choice: dict, frame: pd.DataFrame) -> pd.DataFrame:
    """What the choice would have reached, and what every method would with its longest training."""
    rows = {f"your choice: {choice['method']}": (choice["method"], choice["deadline_s"], choice["rounds"])}
    rows |= {name: (name, *longest_training(name)) for name in PRICES}
    last = frame["round"].max()
    found = {}
    for label, (name, deadline_s, rounds) in rows.items():
        reached = 100 * frame[(frame["method"] == name) & (frame["round"] == min(rounds, last))]["accuracy"]
        spent = {"seconds": rounds * deadline_s, "joules": rounds * joules(name, deadline_s)}
        mean, low, high = mean_and_interval(reached)
        scores = {"accuracy, %": mean, "95% from": low, "to": high}
        found[label] = {"deadline, s": deadline_s, "rounds": rounds} | spent | scores
    return pd.DataFrame(found).T.astype({"rounds": int}).round(1)
