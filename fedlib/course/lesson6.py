"""Lesson 6, the server's step and the bill: a valley in which servers walk, their race on digits, prices, a band.

The methods of `fedlib.algorithms.fedopt` themselves walk in the valley: `InTheValley` replaces their clients, nothing
else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import cos, log2, radians, sin
from typing import Any, cast

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib import wireless
from fedlib.algorithms import REGISTRY, create
from fedlib.course.exercise import exercise, require
from fedlib.judging import transfers
from fedlib.problem.federation import Federation, federate
from fedlib.problem.streams import generator
from fedlib.report import sliders
from fedlib.runs.study import Run
from fedlib.wireless import Scenario
from fedlib.wireless.devices import WATT_PER_DBM

COLOURS = seaborn.color_palette("colorblind")

# ---- A valley with ten clients -------------------------------------------------------------------------------------


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


def walks(paths: dict[str, np.ndarray], valley: Valley) -> Figure:
    """A panel a server: the valley from above, its lowest point, and the server's way."""
    fig, row = plt.subplots(
        1, len(paths), figsize=(3.6 * len(paths), 4), sharex=True, sharey=True, layout="constrained"
    )
    reach = 10.5
    grid = np.stack(np.meshgrid(np.linspace(-reach, reach, 120), np.linspace(-reach, reach, 120)), axis=-1)
    for ax, (name, path), colour in zip(np.atleast_1d(row), paths.items(), COLOURS, strict=False):
        ax.contour(grid[..., 0], grid[..., 1], np.sqrt(valley.loss(grid)), levels=12, colors="0.82", linewidths=0.8)
        ax.plot(*path.T, ".-", color=colour, linewidth=1.2, markersize=5)
        ax.plot(*path[0], "o", color="black", markersize=7, label="start")
        ax.plot(0, 0, "*", color=COLOURS[3], markersize=15, label="best for all clients")
        ax.set(title=name, xlabel="first weight", xlim=(-reach, reach), ylim=(-reach, reach))
        ax.grid(False)
    np.atleast_1d(row)[0].set_ylabel("second weight")
    np.atleast_1d(row)[-1].legend(loc="upper right", fontsize=9)
    return fig


def losses(paths: dict[str, np.ndarray], valley: Valley) -> pd.DataFrame:
    """What a picture of walks shows, in numbers: the loss above the minimum along the way."""
    last = len(next(iter(paths.values()))) - 1
    rounds = [0, *(round for round in (5, 10, 20) if round < last), last]
    shown = {name: valley.loss(path)[rounds] for name, path in paths.items()}
    return pd.DataFrame(shown, [f"round {round}" for round in rounds]).T.rename_axis("loss above the minimum").round(2)


def valley_explorer(rounds: int, beta: float, server_lr: float, angle: float) -> ipywidgets.VBox:
    """Sliders for the server's momentum, Adam's rate and the angle of the valley."""

    def draw(beta: float, server_lr: float, angle: float) -> tuple[Figure, str]:
        valley = Valley(angle=angle)
        paths = three_servers(valley, rounds, beta, server_lr)
        text = ", ".join(f"{name} {valley.loss(path)[-1]:.2f}" for name, path in paths.items())
        return walks(paths, valley), f"Loss above the minimum after {rounds} rounds: {text}."

    return sliders.explorer(
        draw,
        beta=ipywidgets.FloatSlider(beta, min=0, max=0.95, step=0.05, description="beta"),
        server_lr=ipywidgets.FloatLogSlider(server_lr, min=-2, max=0.5, step=0.25, description="Adam's rate"),
        angle=ipywidgets.IntSlider(angle, min=0, max=90, step=15, description="angle"),
    )


def three_servers(valley: Valley, rounds: int, beta: float, server_lr: float) -> dict[str, np.ndarray]:
    return {
        "FedAvg": walk("fedopt", valley, rounds),
        f"FedAvgM, beta = {beta:g}": walk("fedavgm", valley, rounds, beta=beta),
        f"FedAdam, rate {server_lr:.2g}": walk("fedadam", valley, rounds, server_lr=server_lr),
    }


# ---- The race on digits --------------------------------------------------------------------------------------------

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
TUNING_SEED = 100  # no result uses it
STEPS = [0.01, 0.03, 0.1, 0.3]  # of servers that scale their steps

# Name -> method, its fixed options, the one option that is tuned, and the four values that it may take.
SERVERS: dict[str, tuple[str, dict, str, list[float]]] = {
    "FedAvg": ("fedavg", {}, "lr", [0.2, 0.5, 1.0, 2.0]),
    "FedAvgM": ("fedavgm", {}, "server_lr", [0.2, 0.5, 1.0, 2.0]),
    "FedAdagrad": ("fedadagrad", {}, "server_lr", STEPS),
    "FedAdam": ("fedadam", {}, "server_lr", STEPS),
    "FedYogi": ("fedyogi", {}, "server_lr", STEPS),
    "FCBAFL": ("fcbafl", {}, "lr", [0.02, 0.05, 0.1, 0.2]),
    "ACFMO": ("acfmo", {"variant": "current"}, "server_lr", STEPS),
}


def run(name: str, seed: int, rounds: int, every: int = 1, **tuned: float) -> Run:
    """One run of a server of the race."""
    method, fixed, _, _ = SERVERS[name]
    return Run(method, PROBLEM, rounds, seed, LOCAL | fixed | tuned, every, {"method": name} | tuned)


def tuning(rounds: int, seed: int = TUNING_SEED) -> list[Run]:
    """Four tries for every server."""
    return [
        run(name, seed, rounds, every=3, **{knob: value})
        for name, (_, _, knob, values) in SERVERS.items()
        for value in values
    ]


def tried(tuned: pd.DataFrame) -> pd.DataFrame:
    """The mean accuracy over all measured rounds, one row a try: high for a server that is good early."""
    trained = tuned[tuned["round"] > 0]
    return (
        trained.assign(value=trained["lr"].fillna(trained["server_lr"]))
        .groupby(["method", "value"], sort=False)["accuracy"]
        .mean()
        .reset_index()
    )


def tried_table(tuned: pd.DataFrame) -> pd.DataFrame:
    """The scores of `tried`, methods down and rates across."""
    table = tried(tuned).pivot(index="method", columns="value", values="accuracy").loc[list(SERVERS)]
    return table.map(lambda score: "" if np.isnan(score) else f"{score:.3f}").rename_axis(columns="rate")


def best(tuned: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The best try of every server, as an option of its method."""
    scores = tried(tuned)
    rows = scores.loc[scores.groupby("method", sort=False)["accuracy"].idxmax()]
    return {row.method: {SERVERS[row.method][2]: row.value} for row in rows.itertuples()}


def race(chosen: dict[str, dict[str, Any]], rounds: int, seeds: range) -> list[Run]:
    """Every server with its chosen rate, on every seed."""
    return [run(name, seed, rounds, **tuned) for seed in seeds for name, tuned in chosen.items()]


def after(method: str, seed: int, rounds: int, **options) -> torch.Tensor:
    """The server's weights after some rounds of the race's problem."""
    server, federation = create(method, **LOCAL, **options), federate(**PROBLEM, seed=seed)
    state = server.init(federation)
    for round in range(1, rounds + 1):
        state = server.round(federation, state, round)
    return state["weights"]


def tuning_curves(tuned: pd.DataFrame) -> Figure:
    """Accuracy over the tuned rate: clients' rates left, servers' rates right."""
    fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), sharey=True, layout="constrained")
    scores = tried(tuned)
    for ax, knob, whose in zip(axes, ("lr", "server_lr"), ("clients'", "server's"), strict=True):
        names = [name for name, (_, _, own, _) in SERVERS.items() if own == knob]
        own = scores[scores["method"].isin(names)]
        look = {"hue": "method", "style": "method", "hue_order": names, "style_order": names, "markers": True}
        seaborn.lineplot(own, x="value", y="accuracy", ax=ax, **look)
        ax.set(xscale="log", title=f"tuned: the {whose} rate", xlabel="rate", ylabel="accuracy, mean over rounds")
        ax.set_xticks(values := sorted(own["value"].unique()), [f"{value:g}" for value in values])
        ax.minorticks_off()
        ax.legend(title=None, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, frameon=False)
    return fig


def race_curves(frame: pd.DataFrame, target: float) -> Figure:
    """A panel a server: its mean accuracy over seeds with the span of the seeds, and FedAvg's for comparison."""
    mean = frame.pivot_table(index="round", columns="method", values="accuracy", sort=False)
    rivals = [name for name in mean if name != "FedAvg"]
    fig, axes = plt.subplots(2, 3, figsize=(10, 5.6), sharex=True, sharey=True, layout="constrained")
    for ax, name, colour in zip(axes.flat, rivals, COLOURS[1:], strict=False):
        seeds = frame[frame["method"] == name].pivot(index="round", columns="seed", values="accuracy")
        ax.fill_between(seeds.index, seeds.min(axis=1), seeds.max(axis=1), color=colour, alpha=0.25, linewidth=0)
        ax.plot(mean["FedAvg"], color="0.35", linestyle="--", linewidth=1.4, label="FedAvg")
        ax.plot(mean[name], color=colour, linewidth=2, label=name)
        ax.axhline(target, color="black", linewidth=0.8, linestyle=":")
        ax.set(title=name, ylim=(0.5, 0.95))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.legend(loc="lower right", fontsize=9)
    fig.supxlabel("communication round", fontsize=11)
    fig.supylabel("test accuracy", fontsize=11)
    return fig


# ---- What a round costs --------------------------------------------------------------------------------------------

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
        pd.DataFrame(rows).T.rename_axis("joules a round").map(lambda value: "-" if np.isnan(value) else f"{value:.1f}")
    )


def bills(frame: pd.DataFrame, target: float) -> pd.DataFrame:
    """Rounds until the target is first reached (mean, fewest and most over seeds), and the models sent until then.

    Empty where some seed never gets there.
    """
    rows = {}
    for name, runs in frame.groupby("method", sort=False):
        reached = [transfers.to_reach(one_seed, target, 1) for _, one_seed in runs.groupby("seed")]
        rounds = [np.nan] if None in reached else [round for round in reached if round is not None]
        mean = np.mean(rounds)
        rows[name] = {
            "rounds": mean,
            "fewest": min(rounds),
            "most": max(rounds),
            "models sent": mean * PRICES[name].models,
        }
    return pd.DataFrame(rows).T.rename_axis(f"to reach {target:.0%}").round(1)


def mean_bill(bills: list[int | None]) -> str:
    """The mean of the seeds' bills; "never" where one of them has none."""
    due = [bill for bill in bills if bill is not None]
    return f"{np.mean(due):.0f}" if len(due) == len(bills) else "never"


def bill_bars(table: pd.DataFrame) -> Figure:
    """Two currencies side by side: rounds and models sent; the cheapest stands out."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, currency in zip(axes, ("rounds", "models sent"), strict=True):
        values = table[currency]
        ax.barh(
            table.index, values.fillna(0), color=[COLOURS[2] if each == values.min() else "0.72" for each in values]
        )
        for position, value in enumerate(values):
            ax.text(
                np.nan_to_num(value),
                position,
                " never" if np.isnan(value) else f" {value:.0f}",
                va="center",
                fontsize=9,
            )
        ax.set(title=currency, xlim=(0, 1.2 * values.max()))
        ax.grid(False)
    axes[0].invert_yaxis()
    return fig


# ---- Sharing a band ------------------------------------------------------------------------------------------------

BAND_HZ, POWER_W = 1e6, 0.5


def sending_j(share: float, snr: float, bits: float = 5e5) -> float:
    """Joules for sending `bits` on a share of the band; `snr` is signal to noise on the whole band."""
    return POWER_W * bits / (share * BAND_HZ * log2(1 + snr / share))


def two_devices(near: float, far: float) -> tuple[Figure, pd.DataFrame]:
    """What two devices spend on sending, depending on how the band is split between them."""
    share = np.linspace(0.02, 0.98, 193)
    parts = {
        "near device": np.array([sending_j(1 - own, near) for own in share]),
        "far device": np.array([sending_j(own, far) for own in share]),
    }
    total = parts["near device"] + parts["far device"]
    fig, ax = plt.subplots(figsize=(7, 3.9), layout="constrained")
    for (name, own), dash in zip(parts.items(), ("--", "-."), strict=True):
        ax.plot(100 * share, own, dash, label=name)
    ax.plot(100 * share, total, color="black", linewidth=2.5, label="both")
    ax.plot(100 * share[total.argmin()], total.min(), "*", color=COLOURS[3], markersize=15, label="least")
    ax.set(xlabel="the far device's share of the band in %", ylabel="energy of sending in J", ylim=(0, 3 * total.min()))
    ax.legend(ncols=2, loc="upper center")
    shown = pd.DataFrame(parts | {"both": total}, index=[f"{100 * own:.0f}%" for own in share])
    return fig, shown.iloc[[16, 56, 96, 136, 176]].round(3).rename_axis("far device's share")


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


def plan_bars(frame: pd.DataFrame, title: str) -> Figure:
    """Sending and computing of each plan as stacked bars, with the saving on the first."""
    fig, ax = plt.subplots(figsize=(7.5, 3.7), layout="constrained")
    frame.plot.bar(stacked=True, ax=ax, rot=0, color=[COLOURS[0], COLOURS[1]], width=0.6)
    total = frame.sum(axis=1, skipna=False)
    for position, value in enumerate(total):
        told = "no plan" if np.isnan(value) else f"{value:.0f} J"
        ax.text(position, np.nan_to_num(value), told, ha="center", va="bottom")
    ax.set(title=title, ylabel="energy of a round in J", ylim=(0, 1.15 * total.max()))
    ax.grid(False, axis="x")
    ax.legend(loc="upper right")
    return fig


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


def energy_explorer(deadline_s: float, radius_km: float, devices: int, seed: int) -> ipywidgets.VBox:
    """Sliders on one cell above `three_plans`."""

    def draw(deadline_s: float, radius_km: float, devices: int) -> tuple[Figure, str]:
        frame, text = three_plans(whole_cell(deadline_s, radius_km, devices), seed)
        return plan_bars(frame, f"{devices} devices, {radius_km:g} km, {deadline_s:g} s"), text

    return sliders.explorer(
        draw,
        deadline_s=ipywidgets.FloatSlider(deadline_s, min=26, max=60, step=1, description="deadline, s"),
        radius_km=ipywidgets.FloatSlider(radius_km, min=0.1, max=3, step=0.1, description="radius, km"),
        devices=ipywidgets.IntSlider(devices, min=2, max=150, description="devices"),
    )


# ---- Under a budget ------------------------------------------------------------------------------------------------

ENERGY_J, TIME_S = 150.0, 120.0  # what all participants together may spend, and how long everything may take


def longest_training(method: str) -> tuple[float, int]:
    """The deadline (to a tenth of a second) with which both budgets pay for most rounds, and how many these are."""
    deadlines_s = np.arange(20, 301) / 10
    devices = wireless.draw_devices(cell(method, deadlines_s[0]), generator(0, "devices"))
    energy_j = wireless.joint_optimum(devices[None], deadlines_s).energy_j
    rounds = np.floor(np.nan_to_num(np.minimum(TIME_S / deadlines_s, ENERGY_J / energy_j)) + 1e-9)
    longest = np.flatnonzero(rounds == rounds.max())[-1]  # among equals, the deadline that needs least energy
    return float(deadlines_s[longest]), int(rounds[longest])


def outcome(choice: dict, frame: pd.DataFrame) -> pd.DataFrame:
    """What the choice would have reached, and what every method would with its longest training."""
    rows = {f"your choice: {choice['method']}": (choice["method"], choice["deadline_s"], choice["rounds"])}
    rows |= {name: (name, *longest_training(name)) for name in PRICES}
    last = frame["round"].max()
    found = {}
    for label, (name, deadline_s, rounds) in rows.items():
        reached = 100 * frame[(frame["method"] == name) & (frame["round"] == min(rounds, last))]["accuracy"]
        spent = {"seconds": rounds * deadline_s, "joules": rounds * joules(name, deadline_s)}
        scores = {"accuracy, %": reached.mean(), "lowest": reached.min(), "highest": reached.max()}
        found[label] = {"deadline, s": deadline_s, "rounds": rounds} | spent | scores
    return pd.DataFrame(found).T.astype({"rounds": int}).round(1)


# ---- Checks --------------------------------------------------------------------------------------------------------


def _same(found, right) -> bool:
    found, right = torch.as_tensor(found, dtype=torch.float64), torch.as_tensor(right, dtype=torch.float64)
    return found.shape == right.shape and torch.allclose(found, right, rtol=1e-6, atol=1e-9)


def _expect(what: str, found, right: list[float], mistakes: Mapping[str, Sequence[float]]) -> None:
    """The value must be right; a known mistake gets its own hint."""
    for hint, wrong in mistakes.items():
        require(not _same(found, wrong), hint)
    require(_same(found, right), f"{what} should be {right}, yours is {_plain(found)}.")


def _plain(value):
    return [round(each, 4) for each in value.tolist()] if isinstance(value, torch.Tensor) else value


def _vectors(*rows: Sequence[float] | Sequence[Sequence[float]]) -> list[torch.Tensor]:
    return [torch.tensor(row, dtype=torch.float64) for row in rows]


def _untouched(before: list[torch.Tensor], after: list[torch.Tensor]) -> None:
    kept = all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    require(kept, "The step changed its inputs in place (+= or mul_). Make new tensors: the caller needs the old ones.")


def _parts(answer, names: str) -> None:
    wanted = names.count(",") + 1
    fits = isinstance(answer, tuple | list) and len(answer) == wanted
    require(
        fits, f"Return {wanted} things, in this order: {names}. The server needs its memory again in the next round."
    )


@exercise("6.1", "A server with momentum")
def momentum_step(answer):
    require(
        answer is not None,
        "Average the models by size and subtract w: that is Delta. Then m = beta m + Delta, and w follows m.",
    )
    w, models, sizes, still, m = _vectors([1, 2], [[3, 2], [1, 6]], [1, 3], [0, 0], [2, -2])
    before = [each.clone() for each in (w, m, models)]
    step = answer(w, still, models, sizes, 1.0, 0.0)
    _parts(step, "w, m")
    _expect(
        "With beta = 0 and rate 1 this is FedAvg: from w = [1, 2] and models [3, 2], [1, 6] of sizes 1 and 3, "
        "the new w",
        step[0],
        [1.5, 5.0],
        {
            "Weigh the clients by their sizes: one has 1 sample, the other 3.": [2, 4],
            "Delta points to where the clients went, so the server adds it. Yours walks the other way.": [0.5, -1],
            "Delta is the average minus w; it seems that you added the whole average to w.": [2.5, 7],
        },
    )
    new_w, new_m = answer(w, m, models, sizes, 0.1, 0.5)
    _expect(
        "With m = [2, -2], beta = 0.5 and Delta = [0.5, 3], the new m",
        new_m,
        [1.5, 2.0],
        {
            "FedAvgM adds the whole Delta to beta m. The factor (1 - beta) belongs to Adam's first moment.": [
                1.25,
                0.5,
            ],
            "The old m should fade: multiply it by beta.": [2.5, 1.0],
            "Keep the server's rate out of m; it scales the step of w only.": [1.05, -0.7],
        },
    )
    _expect(
        "With rate 0.1 and new m = [1.5, 2], the new w",
        new_w,
        [1.15, 2.2],
        {
            "Step along the new m, not along the old one: this round's clients would not be heard.": [1.2, 1.8],
            "The server's rate is missing in the step of w.": [2.5, 4.0],
        },
    )
    _untouched(before, [w, m, models])


@exercise("6.2", "A server with Adam")
def adam_step(answer):
    require(
        answer is not None,
        "Three lines: m keeps beta1 of itself and takes (1 - beta1) of Delta; v the same with beta2 and Delta squared; "
        "then w.",
    )
    w, still, delta = _vectors([10, 10], [0, 0], [3, -1])
    first = answer(w, still, still, delta, 1.0, 0.0, 0.0, 1.0)
    _parts(first, "w, m, v")
    squares = {"v remembers squares: use delta ** 2.": [3, -1]}
    _expect("Without memory (both betas 0) and with Delta = [3, -1], v", first[2], [9.0, 1.0], squares)
    _expect(
        "With m = [3, -1], v = [9, 1], tau = 1 and rate 1, the new w",
        first[0],
        [10.75, 9.5],
        {
            "Delta points downhill already: add the step. (A gradient would be subtracted.)": [9.25, 10.5],
            "Divide by the root of v, plus tau; the root is missing.": [10.3, 9.5],
            "tau stands outside the root here: sqrt(v) + tau.": [10 + 3 / 10**0.5, 10 - 1 / 2**0.5],
        },
    )
    w, m, v, delta = _vectors([1, 1], [6, 0], [29, 61], [2, -4])
    before = [each.clone() for each in (w, m, v, delta)]
    new_w, new_m, new_v = answer(w, m, v, delta, 12.0, 0.75, 0.2, 1.0)
    _expect(
        "With m = [6, 0], Delta = [2, -4] and beta1 = 0.75, the new m",
        new_m,
        [5.0, -1.0],
        {
            "beta1 is the share of the old m that stays; 1 - beta1 is what Delta gets. Yours are swapped.": [3, -3],
            "Adam's m is an average: Delta enters with the factor (1 - beta1).": [6.5, -4],
        },
    )
    swapped = {"beta2 and 1 - beta2 are swapped.": [24, 52]}
    _expect("With v = [29, 61], Delta = [2, -4] and beta2 = 0.2, the new v", new_v, [9.0, 25.0], swapped)
    corrected = [1 + 240 / ((9 / 0.8) ** 0.5 + 1), 1 - 48 / ((25 / 0.8) ** 0.5 + 1)]
    _expect(
        "With new m = [5, -1], new v = [9, 25], tau = 1 and rate 12, the new w",
        new_w,
        [16.0, -1.0],
        {
            "Step with the new m; yours uses the old one.": [19, 1],
            "Divide by the root of the new v; yours uses the old one.": [
                1 + 60 / (29**0.5 + 1),
                1 - 12 / (61**0.5 + 1),
            ],
            "FedAdam leaves Adam's bias correction out: no division by 1 - beta.": corrected,
        },
    )
    _untouched(before, [w, m, v, delta])
    options = {"server_lr": 0.3, "beta1": 0.9, "beta2": 0.99, "tau": 0.001}
    same = _same(walk_with(answer, Valley(), 10, **options), walk("fedadam", Valley(), 10, **options))
    require(
        same,
        "Single steps are right, but ten rounds in the valley part from the library's FedAdam. Is every argument used?",
    )


@exercise("6.3", "A bill that does not trust to luck")
def bill(answer):
    require(
        answer is not None,
        "Walk through the rounds, counted from 1, with a counter of good rounds in a row; "
        "a round below the target sets it to 0.",
    )
    curve = [0.3, 0.8, 0.7, 0.6, 0.8, 0.85, 0.9, 0.6]
    found = answer(curve, 0.8, 20, 1)
    require(
        found != 20,
        "The first accuracy belongs to round 1, but Python counts it as 0: one round is missing on your bill.",
    )
    require(found != 120, "Reaching the target means at least the target: 0.8 is enough for 0.8.")
    told = f"For {curve}, target 0.8, 20 models a round and patience 1, two rounds are 40 models. You returned {found}."
    require(found == 40, told)
    patient = answer(curve, 0.8, 20, 3)
    require(patient != 40, "With patience 3 one lucky round is not enough: ask for three good rounds in a row.")
    require(
        patient != 100,
        "The bill is due at the end of the three rounds in a row: only then do you know that they were good.",
    )
    require(
        patient != 120,
        "In a row: a round below the target starts the counting anew. Yours also counts good rounds before it.",
    )
    require(
        patient == 140,
        f"With patience 3, rounds 5, 6 and 7 are the first in a row, so seven rounds are paid: 140. Not {patient}.",
    )
    never = answer([0.9, 0.1, 0.9], 0.5, 20, 2)
    require(
        never is None,
        f"A curve that never stays at the target has no bill: return None. {never} would look like a price.",
    )


@exercise("6.4", "Splitting the band")
def best_share(answer):
    require(
        answer is not None,
        "Try many shares b between 0 and 1. The devices spend sending_j(b, first) + sending_j(1 - b, second); "
        "return the b with the least sum.",
    )
    for first, second in ((50.0, 50.0), (1.5, 1e5), (300.0, 20.0)):
        share = answer(first, second)
        one_number = isinstance(share, int | float) and 0 < share < 1
        require(one_number, f"Return one number between 0 and 1, the first device's share. You returned {share}.")
        spent = {b: sending_j(b, first) + sending_j(1 - b, second) for b in (share, 1 - share, *_beside(share))}
        told = f"With snr {first:g} and {second:g} you give the first device {share:.3f}, for {spent[share]:.4f} J."
        mixed_up = spent[1 - share] < spent[share] * (1 - 1e-9)
        require(not mixed_up, f"{told} The other way round would be cheaper: have you mixed up the two devices?")
        cheaper = min(_beside(share), key=spent.__getitem__)
        missed = f"{told} A share of {cheaper:.3f} costs {spent[cheaper]:.4f} J. Try more shares, at least a hundred."
        require(spent[share] <= spent[cheaper], missed)


def _beside(share: float) -> tuple[float, float]:
    """Shares a little smaller and a little larger: energy is convex, so the best share beats both."""
    return max(share - 0.02, share / 2), min(share + 0.02, (1 + share) / 2)


@exercise("6.5", "Under a budget (open)")
def choice(answer):
    keys = ("method", "rounds", "deadline_s", "reason")
    form = f"The choice is a dictionary with the keys {', '.join(keys)}. Start from the price list."
    require(isinstance(answer, dict) and set(keys) <= answer.keys(), form)
    method, rounds, deadline_s, reason = (answer[key] for key in keys)
    require(method in PRICES, f"{method!r} is not on the price list. It has: {', '.join(PRICES)}.")
    require(isinstance(rounds, int) and rounds > 0, f"rounds must be a whole number above 0; yours is {rounds!r}.")
    seconds_given = isinstance(deadline_s, int | float) and deadline_s > 0
    require(seconds_given, f"deadline_s is a number of seconds above 0; yours is {deadline_s!r}.")
    reach = plan(method, deadline_s).feasibility
    require(reach.feasible, f"{deadline_s:g} s are too short for a round of {method}. {reach.explain()}")
    seconds, spent = rounds * deadline_s, rounds * joules(method, deadline_s)
    require(seconds <= TIME_S, f"{rounds} rounds of {deadline_s:g} s take {seconds:g} s; you have {TIME_S:g} s.")
    require(
        spent <= ENERGY_J,
        f"{rounds} rounds of {method} at {deadline_s:g} s cost {spent:.0f} J; you have {ENERGY_J:g} J.",
    )
    left = f"You use {seconds:g} of {TIME_S:g} s and {spent:.0f} of {ENERGY_J:g} J: half of both is left. More rounds?"
    require(max(seconds / TIME_S, spent / ENERGY_J) > 0.5, left)
    words = len(str(reason).split())
    require(
        words >= 12, f"Give a reason of at least a dozen words that names a number of this lesson; yours has {words}."
    )
