"""Lesson 4, changing the topology: four ways to move a model, what they cost, what a ring forgets; and the checks.

Twelve devices with two kinds of digits each. A link to the cloud may cost more than one between neighbours; a round may
take longer in a row than another. So accuracy is drawn against rounds, against cost and against time.
"""

from collections.abc import Callable
from dataclasses import dataclass

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from fedlib import engine
from fedlib.algorithms import create
from fedlib.algorithms.algorithm import Algorithm
from fedlib.course.exercise import exercise, require
from fedlib.judging import transfers
from fedlib.papers.fedsr.pictures import DEVICE, DOWN, LOOKS, RING, SERVER, UP
from fedlib.problem.federation import Federation
from fedlib.report import drift, sliders
from fedlib.runs.simulation import Progress, simulate
from fedlib.runs.study import Run, execute

DEVICES, EPOCHS, RING_SIZE = 12, 3, 4
LOCAL = {"lr": 0.1, "batch": 20}
PROBLEM = {
    "data_set": "mnist",
    "partitioner": "shards",
    "per_client": 2,
    "clients": DEVICES,
    "network": "mlp200",
    "samples": 960,
    "test_samples": 1000,
}  # arguments of `federate`: 80 images a device, of two or three digits
METHODS = {
    "FedAvg": ("fedavg", {"epochs": EPOCHS}),
    "HierFAVG": ("hierfavg", {"epochs": 1, "iterations": EPOCHS, "cluster_size": RING_SIZE}),
    "ring-optimization": ("ring", {"epochs": EPOCHS}),
    "FedSR": ("fedsr", {"epochs": 1, "passes": EPOCHS, "cluster_size": RING_SIZE}),
}  # every device computes EPOCHS epochs a round
CLOUD_PRICE = 10  # of a model to or from the cloud; any other sending costs 1
BUDGET, PATIENCE = 1000, 120  # of the last exercise: cost, and epochs in a row
SAMPLE_DESIGN = {"cluster_size": 4, "passes": 3}  # the design of the text, to be beaten


# Pictures of the topologies


def topologies() -> tuple[Figure, pd.DataFrame]:
    """Star, hierarchy, ring, and rings under a server, six devices each; and who averages what."""
    fig, panels = plt.subplots(1, 4, figsize=(13, 3.5), layout="constrained")
    draws = {"star": _star, "hierarchy": _hierarchy, "ring": _ring, "rings under a server": _rings}
    for axes, (name, draw) in zip(panels, draws.items(), strict=True):
        axes.set(xlim=(-1.3, 1.3), ylim=(-1.35, 1.3), aspect="equal", title=name)
        axes.axis("off")
        draw(axes)
    rows = [
        ("star", "FedAvg", "the cloud, once a round", 1),
        ("hierarchy", "HierFAVG", "edge servers several times, then the cloud", 1),
        ("ring", "ring-optimization", "nobody", 6),
        ("rings under a server", "FedSR", "the cloud, one model a ring", 3),
    ]
    columns = ["topology", "method", "who averages", "visits in a row"]
    return fig, pd.DataFrame(rows, columns=columns).set_index("topology")


def _around(centre: tuple[float, float], radius: float, count: int) -> list[tuple[float, float]]:
    """Places on a circle, clockwise from the top left."""
    angles = 0.75 * np.pi - 2 * np.pi * np.arange(count) / count
    return [(centre[0] + radius * np.cos(angle), centre[1] + radius * np.sin(angle)) for angle in angles]


def _node(axes: Axes, place: tuple[float, float], text: str, colour, shape: str = "o") -> None:
    size = 23 if shape == "o" else 27
    axes.plot(*place, shape, markersize=size, color="white", markeredgecolor=colour, markeredgewidth=2, zorder=3)
    axes.text(*place, text, ha="center", va="center", fontsize=8, zorder=4)


def _link(axes: Axes, start, end, colour, bend: float = 0.0) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "lw": 1.5, "shrinkA": 13, "shrinkB": 13}
    axes.annotate("", end, start, arrowprops=look | {"connectionstyle": f"arc3,rad={bend}"})


def _both_ways(axes: Axes, server, place) -> None:
    _link(axes, server, place, DOWN, 0.15)
    _link(axes, place, server, UP, 0.15)


def _star(axes: Axes) -> None:
    for number, place in enumerate(_around((0, 0), 1.05, 6), 1):
        _both_ways(axes, (0, 0), place)
        _node(axes, place, str(number), DEVICE)
    _node(axes, (0, 0), "cloud", SERVER, "s")


def _hierarchy(axes: Axes) -> None:
    for x, first in ((-0.68, 1), (0.68, 4)):
        _both_ways(axes, (0, 1.05), (x, 0.1))
        for k in range(3):
            place = (x + 0.44 * (k - 1), -1.0)
            _both_ways(axes, (x, 0.1), place)
            _node(axes, place, str(first + k), DEVICE)
        _node(axes, (x, 0.1), "edge", SERVER, "s")
    _node(axes, (0, 1.05), "cloud", SERVER, "s")


def _ring(axes: Axes) -> None:
    places = _around((0, 0), 0.95, 6)
    for k, place in enumerate(places):
        _link(axes, place, places[(k + 1) % 6], RING, -0.2)
        _node(axes, place, str(k + 1), DEVICE)


def _rings(axes: Axes) -> None:
    for x, first in ((-0.7, 1), (0.7, 4)):
        _both_ways(axes, (0, 1.05), (x, 0.25))
        places = _around((x, -0.7), 0.44, 3)
        for k, place in enumerate(places):
            _link(axes, place, places[(k + 1) % 3], RING, -0.25)
            _node(axes, place, str(first + k), DEVICE)
        _link(axes, (x, 0.25), places[0], DOWN, 0.1)
        _link(axes, places[2], (x, 0.25), UP, -0.75)
        _node(axes, (x, 0.25), "edge", SERVER, "s")
    _node(axes, (0, 1.05), "cloud", SERVER, "s")


# What a round costs and how long it takes


def method(name: str) -> Algorithm:
    """One of the four methods with the settings of this lesson."""
    algorithm, options = METHODS[name]
    return create(algorithm, **options, **LOCAL)


def models_sent(algorithm: Algorithm, devices: int = DEVICES) -> int:
    """Arrows of a round: every sending of a model counts."""
    return transfers.per_round(algorithm, devices, edge_broadcasts=True)


def cost(algorithm: Algorithm, cloud_price: float, devices: int = DEVICES) -> float:
    """Of a round, when a model to or from the cloud costs `cloud_price` and any other sending costs 1."""
    return sum(cloud_price if "cloud" in hop else 1 for hop in transfers.hops(algorithm, devices))


def epochs_in_a_row(algorithm: Algorithm, devices: int = DEVICES) -> int:
    """How long a round takes: the epochs that must wait for each other. Devices side by side do not."""
    kind, options = type(algorithm).__name__, vars(algorithm)
    if kind == "Ring":
        return devices * options["epochs"]
    if kind == "FedSR":
        return min(devices, options["cluster_size"]) * options["passes"] * options["epochs"]
    return options.get("iterations", 1) * options["epochs"]


def round_of(devices: int = DEVICES, cloud_price: float = CLOUD_PRICE) -> pd.DataFrame:
    """What a round of each method means."""
    made = {name: method(name) for name in METHODS}
    return pd.DataFrame(
        {
            "models sent": {name: models_sent(each, devices) for name, each in made.items()},
            f"cost, cloud links {cloud_price:g}": {
                name: cost(each, cloud_price, devices) for name, each in made.items()
            },
            "epochs in a row": {name: epochs_in_a_row(each, devices) for name, each in made.items()},
        }
    ).rename_axis("method")


# The race


def race(rounds: int, seeds: range) -> pd.DataFrame:
    """All four methods on the skewed problem: one row a run and round."""
    runs = [
        _run(algorithm, seed, rounds, options | LOCAL, {"method": name})
        for name, (algorithm, options) in METHODS.items()
        for seed in seeds
    ]
    return execute(runs)


def _run(algorithm: str, seed: int, rounds: int, options: dict, label: dict) -> Run:
    return Run(algorithm, PROBLEM, rounds, seed, options, label=label)


def race_picture(frame: pd.DataFrame, cloud_price: float = CLOUD_PRICE) -> tuple[Figure, pd.DataFrame]:
    """Accuracy over rounds, cost and time, a line a method (mean over seeds, a band of one standard deviation).

    The table has the accuracy after equal rounds, at equal cost and in equal time: what the cheapest, or the quickest,
    method has used when it ends.
    """
    scales = {
        "rounds": dict.fromkeys(METHODS, 1),
        f"cost (cloud link {cloud_price:g}, other links 1)": {
            name: cost(method(name), cloud_price) for name in METHODS
        },
        "time, epochs in a row": {name: epochs_in_a_row(method(name)) for name in METHODS},
    }
    fig, panels = plt.subplots(1, 3, figsize=(13, 3.9), sharey=True, layout="constrained")
    columns, rounds = {}, frame["round"].max()
    for axes, (label, per_round) in zip(panels, scales.items(), strict=True):
        common = rounds * min(per_round.values())
        reached = {name: _accuracy_at(frame, name, common / each) for name, each in per_round.items()}
        columns[f"{label.split(',')[0].split()[0]} {common:g}"] = reached
        for name, each in per_round.items():
            _line(axes, frame[frame["method"] == name], name, each)
        axes.axvline(common, color="0.5", linestyle=":", linewidth=1)
        axes.set(xlabel=label, ylim=(0, 1), xlim=(0, rounds if label == "rounds" else 3 * common))
    panels[0].set_ylabel("test accuracy")
    panels[0].yaxis.set_major_formatter(PercentFormatter(1))
    panels[0].legend(loc="lower right", fontsize=9)
    return fig, pd.DataFrame(columns).rename_axis("accuracy, percent, at equal")


def _line(axes: Axes, runs: pd.DataFrame, name: str, per_round: float) -> None:
    colour, dash = LOOKS[name]
    by_round = runs.groupby("round")["accuracy"]
    x, mean, spread = by_round.mean().index * per_round, by_round.mean(), by_round.std().fillna(0)
    axes.plot(x, mean, color=colour, linestyle=dash, linewidth=1.8, label=name)
    axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.13, linewidth=0)


def _accuracy_at(frame: pd.DataFrame, name: str, round: float) -> str:
    """Of the last round that is finished by then."""
    rows = frame[(frame["method"] == name) & (frame["round"] == int(round + 1e-9))]["accuracy"] * 100
    return f"{rows.mean():.1f} ± {rows.std():.1f}"


def price_explorer(frame: pd.DataFrame, cloud_price: float = CLOUD_PRICE) -> ipywidgets.VBox:
    """A slider for the price of a cloud link above the race; nothing is trained again."""

    def draw(cloud_price: float) -> tuple[Figure, str]:
        costs = ", ".join(f"{name} {cost(method(name), cloud_price):.0f}" for name in METHODS)
        return race_picture(frame, cloud_price)[0], f"A round costs: {costs}."

    slider = ipywidgets.FloatLogSlider(
        cloud_price, min=0, max=2, step=0.1, description="cloud price", readout_format=".3g"
    )
    return sliders.explorer(draw, cloud_price=slider)


# What a ring sees and what it forgets


def classes_seen(federation: Federation, rings: list[np.ndarray]) -> pd.DataFrame:
    """The kinds of digits that each ring's devices hold together."""
    held = federation.class_counts.numpy() > 0
    rows = [
        {
            "ring": m,
            "devices": ", ".join(str(int(device)) for device in ring),
            "digits a device": f"{held[ring].sum(axis=1).mean():.1f}",
            "digits of the ring": int(held[ring].any(axis=0).sum()),
        }
        for m, ring in enumerate(rings, 1)
    ]
    return pd.DataFrame(rows).set_index("ring")


def tug_of_war(rate: float, targets: tuple[float, ...] = (0, 1, 2, 3), passes: int = 3) -> tuple[Figure, pd.DataFrame]:
    """A model that is one number. Device k pulls it towards its target: w <- (1 - rate) w + rate t_k."""
    ring, star = [0.0], [0.0]
    for _ in range(passes):
        for target in targets:
            ring.append((1 - rate) * ring[-1] + rate * target)
        star.append(float(np.mean([(1 - rate) * star[-1] + rate * target for target in targets])))
    fig, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
    axes.grid(False)
    middle = float(np.mean(targets))
    for name, target in [*((f"device {number}", target) for number, target in enumerate(targets, 1)), ("mean", middle)]:
        grey, dash = ("0.3", ":") if name == "mean" else ("0.75", "-")
        axes.hlines(target, 0, len(ring) - 1, linewidth=1, color=grey, linestyle=dash)
        axes.text(len(ring) - 0.7, target, name, va="center", fontsize=9)
    colour, dash = LOOKS["ring-optimization"]
    axes.plot(ring, marker="o", color=colour, linestyle=dash, label="ring: one after another")
    visits = np.arange(passes + 1) * len(targets)
    axes.plot(visits, star, marker="s", color=LOOKS["FedAvg"][0], label="star: all at once, then averaged")
    axes.set(xlabel="visits", ylabel="model $w$", xticks=visits, xlim=(-0.3, len(ring) + 1))
    axes.legend(loc="upper left", fontsize=9)
    ends = {"ring": ring[:: len(targets)], "star": star}
    table = pd.DataFrame(ends, index=pd.RangeIndex(passes + 1, name="after pass")).round(2)
    return fig, table.assign(mean=middle)


@dataclass(frozen=True)
class RingTour:
    """A model's way along a ring: what it knows after each visit, and what each device holds."""

    recall: np.ndarray  # (visits + 1, classes), the start first
    held: np.ndarray  # (visits, classes): share of the device's samples

    @property
    def ago(self) -> np.ndarray:
        """Visits since a device held some of a class, (visits, classes); 0 is the device itself, NaN is never yet."""
        found = np.full(self.held.shape, np.nan)
        last = np.full(self.held.shape[1], np.nan)
        for visit, shares in enumerate(self.held):
            last[shares >= MUCH] = visit
            found[visit] = visit - last
        return found


MUCH = 0.1  # a device holds a class if at least this share of its samples is of it


def trainer(federation: Federation, work: engine.Work, round: int = 1) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """A function `train(model, device)`: what a device makes of a model."""
    return lambda model, device: engine.train(
        federation, engine.Cohort(np.array([device]), model), work, round
    ).weights[0]


def after(federation: Federation, rounds: int) -> torch.Tensor:
    """The cloud's model after some rounds of FedSR."""
    progress = Progress()
    simulate(method("FedSR"), federation, rounds, every=rounds, progress=progress, bar=False)
    assert progress.state is not None  # `simulate` sets it
    return progress.state["weights"]


def journey(
    federation: Federation, start: torch.Tensor, ring: np.ndarray, work: engine.Work, round: int = 1
) -> RingTour:
    """Let one model visit the devices of a ring once and look at it after every visit."""
    model, known, train = start, [drift.recall(federation, start)], trainer(federation, work, round)
    for device in ring:
        model = train(model, device)
        known.append(drift.recall(federation, model))
    shares = federation.class_counts / federation.class_counts.sum(dim=1, keepdim=True)
    return RingTour(np.stack(known), shares.numpy()[ring])


def journeys_picture(found: dict[str, RingTour]) -> tuple[Figure, pd.DataFrame]:
    """One map per tour, visits across and classes up, frames where the visited device holds the class."""
    fig, panels = plt.subplots(1, len(found), figsize=(6.4 * len(found), 4.2), squeeze=False, layout="constrained")
    for axes, (name, each) in zip(panels[0], found.items(), strict=True):
        visits, classes = each.held.shape
        image = axes.imshow(
            each.recall.T,
            cmap=seaborn.color_palette("mako_r", as_cmap=True),
            vmin=0,
            vmax=1,
            aspect="auto",
            origin="lower",
        )
        for visit, label in np.argwhere(each.held >= MUCH):
            axes.add_patch(
                Rectangle((visit + 0.54, label - 0.46), 0.92, 0.92, fill=False, edgecolor=RING, linewidth=2.2)
            )
        axes.grid(False)
        axes.axvline(0.5, color="white", linewidth=5)
        axes.set(title=name, xlabel="visit", xticks=range(visits + 1), yticks=range(classes))
        axes.set_xticklabels(["start", *map(str, range(1, visits + 1))], fontsize=9)
        axes.tick_params(length=0)
        seaborn.despine(ax=axes, left=True, bottom=True)
    panels[0, 0].set_ylabel("digit")
    fig.colorbar(image, ax=panels, label="got right", format=PercentFormatter(1), pad=0.02)
    means = {name: each.recall.mean(axis=1) for name, each in found.items()}
    table = (100 * pd.DataFrame(means)).round(0).astype(int).T.rename_axis("mean over digits, percent, after visit")
    return fig, table


def forgetting_picture(found: dict[str, RingTour], longest: int = 5) -> tuple[Figure, pd.DataFrame]:
    """How much of a class is left this many visits after it was last trained, mean over the journey."""
    fig, axes = plt.subplots(figsize=(6.6, 3.8), layout="constrained")
    columns = {}
    for (name, each), mark in zip(found.items(), "os^", strict=False):
        after, ago = each.recall[1:], each.ago
        columns[name] = [float(after[ago == visits].mean()) for visits in range(longest + 1)]
        axes.plot(range(longest + 1), columns[name], marker=mark, linestyle="-" if mark == "o" else "--", label=name)
    axes.set(xlabel="visits since a device held the digit", ylabel="got right", ylim=(0, 1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.legend()
    table = (100 * pd.DataFrame(columns)).round(0).astype(int).T
    return fig, table.rename_axis("got right, percent").rename_axis("visits ago", axis=1)


# The design of the last exercise


def design(cluster_size: int, passes: int) -> Algorithm:
    """FedSR with rings of this size and this many passes."""
    return create("fedsr", epochs=1, cluster_size=cluster_size, passes=passes, **LOCAL)


def affordable_rounds(algorithm: Algorithm) -> int:
    """Rounds that neither the budget nor our patience ends."""
    return int(min(BUDGET // cost(algorithm, CLOUD_PRICE), PATIENCE // epochs_in_a_row(algorithm)))


def contest(frame: pd.DataFrame, mine: dict | None) -> tuple[Figure, pd.DataFrame]:
    """The methods of the race and `mine`, a design of rings, each for as long as budget and patience last.

    The rate is constant, so that the first rounds of a long run are a short run.
    """
    made, runs = {name: method(name) for name in METHODS}, [frame]
    if mine:
        made["your rings"] = design(**mine)
        rest = (affordable_rounds(made["your rings"]), {"epochs": 1} | mine | LOCAL, {"method": "your rings"})
        runs.append(execute([_run("fedsr", seed, *rest) for seed in frame["seed"].unique().tolist()]))
    rounds = {name: affordable_rounds(each) for name, each in made.items()}
    everything = pd.concat(runs, ignore_index=True)
    shown = everything[everything["round"] <= everything["method"].map(rounds)]
    rows = {
        name: {
            "rounds": rounds[name],
            "cost": round(rounds[name] * cost(each, CLOUD_PRICE)),
            "epochs in a row": rounds[name] * epochs_in_a_row(each),
            "accuracy": _accuracy_at(shown, name, rounds[name]),
        }
        for name, each in made.items()
    }
    return _contest_picture(shown, made), pd.DataFrame(rows).T.rename_axis("method")


def _contest_picture(shown: pd.DataFrame, made: dict[str, Algorithm]) -> Figure:
    fig, panels = plt.subplots(1, 2, figsize=(11, 3.9), sharey=True, layout="constrained")
    scales = {
        "cost": (BUDGET, {name: cost(each, CLOUD_PRICE) for name, each in made.items()}),
        "epochs in a row (time)": (PATIENCE, {name: epochs_in_a_row(each) for name, each in made.items()}),
    }
    for axes, (label, (limit, per_round)) in zip(panels, scales.items(), strict=True):
        for name, runs in shown.groupby("method", sort=False):
            colour, dash = LOOKS.get(name, ("black", "-"))
            mean = runs.groupby("round")["accuracy"].mean()
            look = {"marker": "o" if name in METHODS else "D", "markersize": 4}
            axes.plot(mean.index * per_round[name], mean, color=colour, linestyle=dash, label=name, **look)
        axes.axvline(limit, color="0.5", linestyle=":")
        axes.set(xlabel=label, xlim=(0, 1.05 * limit), ylim=(0, 1))
    panels[0].yaxis.set_major_formatter(PercentFormatter(1))
    panels[0].set_ylabel("test accuracy")
    panels[1].legend(loc="lower right", fontsize=9)
    return fig


# The checks


@exercise("4.1", "Count the arrows of a star of rings")
def arrows_of_rings(answer: Callable[[int, int, int], int]) -> None:
    require(answer is not None, "Take one ring first: how often is a model sent down, handed on, and sent up?")
    cases = {(6, 3, 1): 12, (6, 3, 2): 18, (4, 4, 1): 7, (20, 4, 5): 115, (11, 3, 2): 34, (5, 1, 1): 20}
    for (devices, ring, passes), sent in cases.items():
        found = answer(devices, ring, passes)
        asked = f"{devices} devices, rings of {ring}, {passes} passes"
        rings = -(-devices // ring)
        require(found is not None, "Your function returns nothing: end it with return.")
        require(
            found != passes * devices + 2 * rings,
            f"{asked}: one arrow a ring is missing. The edge "
            "server hands the model to the first device, and that is an arrow, too.",
        )
        require(found != passes * devices, f"{asked}: you have counted what devices send. What do the servers send?")
        require(
            found != passes * devices + 3 * devices or found == sent,
            f"{asked}: the cloud talks to edge servers, one a ring, not to every device.",
        )
        require(
            devices % ring == 0 or found != passes * devices + 3 * (devices // ring),
            f"{asked}: the devices that are left over form a smaller ring of their own, so round up.",
        )
        require(
            found == sent,
            f"{asked}: {sent} arrows, you have {found}. Down: cloud to edge, edge to first device. "
            "Along the ring: all visits but the first begin with a hand-over. Up: last device to edge, edge to "
            "cloud.",
        )


@exercise("4.2", "One model, many visits")
def around_the_ring(answer: Callable) -> None:
    require(answer is not None, "Keep one variable for the model; every visit replaces it by what the device returns.")
    visits = []

    def pull(model: float, device: float) -> float:
        visits.append(device)
        return (model + device) / 2

    found = answer(pull, 8.0, [0.0, 2.0], 1)
    require(found is not None, "Your function returns nothing: end it with return.")
    require(isinstance(found, int | float), f"Return the last model alone, not a {type(found).__name__}.")
    require(
        found != (4 + 5) / 2,
        "You train every device from the start and average: that is the star. In a ring the "
        "second device gets the model of the first.",
    )
    require(found != 8.0, "You returned the model that you began with: keep what `train` returns.")
    require(visits != [2.0, 0.0], "The devices come in the order of the list; you went backwards.")
    require(
        found != 5.0, "The second device must get the model that the first one returns; yours gets the start again."
    )
    require(found == 3.0, f"From 8, a visit to 0 and one to 2, each halving the way, lead to 3. You have {found}.")
    visits.clear()
    found = answer(pull, 0.0, [8.0, 0.0, 4.0], 2)
    require(visits == [8.0, 0.0, 4.0] * 2, f"Two passes visit all three devices twice, in turn. You visited {visits}.")
    require(found != 3.0, "The second pass goes on with the model of the first; yours begins again.")
    require(found == 3.375, f"Two passes over [8, 0, 4] from 0 end at 3.375, you have {found}.")


@exercise("4.3", "What it costs to reach a target")
def cost_to_reach(answer: Callable) -> None:
    require(answer is not None, "Go through the accuracies in order and stop at the first that is high enough.")
    curve = [0.1, 0.5, 0.8, 0.7, 0.9]
    found = answer(curve, 0.75, 10)
    require(found is not None, "Your function returns nothing for a target that is reached: use return.")
    require(found != 30, "The list begins with round 0, before anything was sent: position 2 is round 2.")
    require(found != 2, "That is the round. Each round costs something.")
    require(found != 40, "The curve may fall again after the target. The first time counts, not the last.")
    require(found == 20, f"0.75 is first reached in round 2: 2 rounds of cost 10. You have {found}.")
    require(answer(curve, 0.8, 7) == 14, "An accuracy equal to the target has reached it: use >=.")
    require(answer(curve, 0.1, 7) == 0, "A target that the start meets costs nothing.")
    require(answer(curve, 0.95, 7) is None, "A target that is never reached has no price: return None.")


@exercise("4.4", "Who counts how much after one pass")
def weights_of_devices(answer: Callable) -> None:
    require(answer is not None, "Write w after two visits out by hand: which factor does t_1 carry, which t_2?")
    found = np.asarray(answer(0.5, 3), dtype=float)
    right = np.array([0.125, 0.25, 0.5])
    require(found.shape == (3,), f"Three devices, three numbers. Yours have the shape {found.shape}.")
    require(not np.allclose(found, right[::-1]), "The other way round: the last visitor's pull is the freshest.")
    require(
        not np.allclose(found, right / right.sum()),
        "The start keeps a share, too, so the devices' weights do not add up to 1: leave out the division.",
    )
    require(not np.allclose(found, 2 * right), "Each target enters with the factor `rate` when its device is visited.")
    require(not np.allclose(found, right / 2), "After its own visit a target shrinks once for every LATER device only.")
    shown = np.round(found, 4).tolist()
    require(
        np.allclose(found, right),
        f"rate 0.5: a visitor begins with the weight 0.5, and each later visit halves it. You have {shown}.",
    )
    mine = np.asarray(answer(0.2, 6), dtype=float)
    require(mine.shape == (6,), f"Six devices, six numbers. Yours have the shape {mine.shape}.")
    by_hand = [_pass(0.0, row, 0.2) for row in np.eye(6)]
    require(
        np.allclose(mine, by_hand),
        "rate 0.2, six devices: pull a 0 through a ring in which one target is 1 and the "
        f"others are 0; what comes out is that device's weight. You have {np.round(mine, 4).tolist()}.",
    )


def _pass(model: float, targets: np.ndarray, rate: float) -> float:
    for target in targets:
        model += rate * (target - model)
    return float(model)


@exercise("4.5", "Your own rings (open)")
def my_rings(answer: dict) -> None:
    require(answer is not None, 'Give a dictionary such as {"cluster_size": 2, "passes": 2}; then compare.')
    wanted = {"cluster_size": DEVICES, "passes": PATIENCE}
    fits = isinstance(answer, dict) and set(answer) == set(wanted)
    require(fits, f"Give a dictionary with {' and '.join(wanted)}, no more and no less.")
    for name, most in wanted.items():
        whole = isinstance(answer[name], int) and not isinstance(answer[name], bool)
        require(whole and 1 <= answer[name] <= most, f"{name} is {answer[name]!r}: a whole number from 1 to {most}.")
    made = design(**answer)
    price, time = cost(made, CLOUD_PRICE), epochs_in_a_row(made)
    require(
        affordable_rounds(made) >= 1,
        f"A round costs {price:g} of {BUDGET} and takes {time} of {PATIENCE} epochs in a row: not even one fits.",
    )
    require(
        answer != SAMPLE_DESIGN, "These are the rings of the text. Try others: larger, smaller, more passes, fewer."
    )
