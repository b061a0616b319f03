"""Figures of the FedGS selection notebook: the park (Fig. 1), the loop (Fig. 2), a super node, and Figs. 3 and 4."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.papers.fedgs.experiments.sampling import BEST_SWAP, GROWING, Park
from fedlib.report import plots

COLOURS = seaborn.color_palette("colorblind")
LINKS = (
    ("device", "base station of its factory", "5G, short and fast (B_int)", "T times per round"),
    ("base station", "cloud", "internet, long and slow (B_ext)", "once a round"),
)
LOOP = (
    (1, "each base station selects L devices, the super node", "every iteration"),
    (2, "each selected device takes one SGD step on its next batch", "every iteration"),
    (3, "each base station averages the models of its super node", "every iteration"),
    (4, "the cloud averages the models of the base stations", "after T iterations"),
)
LOOKS = {  # sampler: colour, marker
    "Random": (7, "x"),
    "MC": (5, "v"),
    "Brute": (2, "s"),
    "Bayesian": (4, "P"),
    "GA": (1, "^"),
    "GBP-CS": (0, "o"),
    BEST_SWAP: (3, "D"),
}
STARTS = {"Zero": (2, "s"), "Random": (1, "^"), "MPInv": (0, "o"), GROWING: (4, "D")}


def park() -> tuple[Figure, pd.DataFrame]:
    """Fig. 1: who is linked to whom, and how fast."""
    fig, axes = _canvas(8.5, 4.2)
    for factory, name in ((-3.3, "1"), (0, "2"), (3.3, "M")):
        axes.plot([factory, factory / 4], [2.4, 4.2], color=COLOURS[1], linewidth=1.2, linestyle="--")
        for device in (-0.9, -0.3, 0.3, 0.9):
            axes.plot([factory + device, factory], [0.9, 2.4], color=COLOURS[2], linewidth=2.5)
            _label(axes, factory + device, 0.9, " ", COLOURS[2])
        _label(axes, factory, 2.4, f"base station {name}", COLOURS[0])
        axes.text(factory, 0.15, f"devices of factory {name}", ha="center", fontsize=10)
    _label(axes, 0, 4.3, "cloud: top server", COLOURS[3])
    axes.text(1.65, 1.5, "...", ha="center", fontsize=16)
    axes.text(-4.9, 4.5, "internet: slow, once a round", color=COLOURS[1], fontsize=10)
    axes.text(-4.9, 4.1, "5G: fast, every iteration", color=COLOURS[2], fontsize=10)
    return fig, pd.DataFrame(LINKS, columns=["from", "to", "link", "used"]).set_index("from")


def loop() -> tuple[Figure, pd.DataFrame]:
    """Fig. 2: one round of FedGS."""
    fig, axes = _canvas(9.0, 3.0)
    texts = ("select\nL devices", "one SGD step\non the next batch", "average\nin the factory", "average\nin the cloud")
    places = (-4.2, -1.4, 1.4, 4.2)
    for start, end in ((0, 1), (1, 2), (2, 3)):
        axes.annotate("", (places[end] - 0.95, 2.4), (places[start] + 0.95, 2.4), arrowprops=ARROW)
    for start, top, bend in ((2, 1.6, -0.3), (3, 3.2, 0.2)):
        bent = ARROW | {"connectionstyle": f"arc3,rad={bend}"}
        axes.annotate("", (places[0], top), (places[start], top), arrowprops=bent)
    for step, (place, text, colour) in enumerate(zip(places, texts, (0, 2, 1, 3), strict=True), start=1):
        _label(axes, place, 2.4, f"({step}) {text}", COLOURS[colour])
    axes.text(-1.4, -0.05, "T times per round", ha="center", fontsize=10)
    axes.text(0, 4.75, "R rounds", ha="center", fontsize=10)
    return fig, pd.DataFrame(LOOP, columns=["step", "what", "when"]).set_index("step")


ARROW = {"arrowstyle": "->", "color": "0.3", "lw": 1.8}


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    fig, axes = plt.subplots(figsize=(width, height))
    axes.set(xlim=(-5.2, 5.2), ylim=(0, 5))
    axes.axis("off")
    return fig, axes


def _label(axes: Axes, x: float, y: float, text: str, colour: tuple[float, float, float]) -> None:
    frame = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": colour, "linewidth": 1.8}
    axes.text(x, y, text, ha="center", va="center", fontsize=10, bbox=frame)


def super_node(node: pd.DataFrame, park: Park) -> tuple[Figure, pd.DataFrame]:
    """Class shares of one batch, of ten devices at random and of ten with GBP-CS, over the real distribution."""
    real, shares = node["real"], {"one device": node["one device"]}
    for how in ("at random", "by GBP-CS"):
        shares[f"{park.selected} devices, {park.size} of them {how}"] = node[how]
    fig, rows = plt.subplots(len(shares), 1, figsize=(9, 5.6), sharex=True, layout="constrained")
    for axes, (title, share) in zip(rows, shares.items(), strict=True):
        axes.bar(range(len(real)), share, color=COLOURS[0], label="batches")
        axes.step(np.arange(len(real)), real, where="mid", color=COLOURS[3], linewidth=1.6, label="real distribution")
        axes.set_title(title, fontsize=11)
    rows[1].set_ylabel("share of the samples")
    rows[-1].set_xlabel("class: 0-9, A-Z, a-z")
    rows[0].legend(loc="upper right")
    far = {title: float(np.sqrt(np.sum((share - real) ** 2))) for title, share in shares.items()}
    return fig, pd.DataFrame({"divergence": far}).rename_axis("super node").round(4)


def initialisers(curves: pd.DataFrame, optimum: pd.DataFrame) -> Figure:
    """Fig. 3, left for the first factory and seed, right as a mean over all; ended searches keep their value."""
    fig, row = plt.subplots(1, 2, figsize=(10.5, 4), sharey=True, layout="constrained")
    first = (curves["seed"] == curves["seed"].iloc[0]) & (curves["factory"] == 1)
    first_optimum = (optimum["seed"] == curves["seed"].iloc[0]) & (optimum["factory"] == 1)
    for axes, shown, best, title in (
        (row[0], curves[first], optimum[first_optimum], "one factory"),
        (row[1], curves, optimum, "mean over factories and seeds"),
    ):
        for name, line in shown.groupby("initialiser", sort=False):
            wide = line.pivot_table(index="iteration", columns=["seed", "factory"], values="divergence").ffill()
            colour, marker = STARTS[name]
            axes.plot(wide.mean(axis=1), color=COLOURS[colour], marker=marker, markersize=5, label=name)
        least = best["divergence"].mean()
        axes.axhline(least, color="black", linestyle="--", linewidth=1.2, label="optimum (brute force)")
        axes.set(title=title, xlabel="iteration of GBP-CS, warm-up included", yscale="log")
    row[0].set_ylabel("divergence")
    row[0].set_yticks(ticks := [0.03, 0.04, 0.05, 0.07, 0.1, 0.15], ticks)
    row[0].minorticks_off()
    row[1].legend()
    return fig


def divergences(frame: pd.DataFrame, iid: float, printed: dict[str, tuple[float, float]]) -> Figure:
    """Fig. 4a: the first seed's factories one by one, and the ranges over all beside the printed ones."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True, layout="constrained", width_ratios=(3, 2))
    points = frame[frame["point"] == "factory"]
    first_seed = points["seed"].iloc[0]
    for place, (name, problems) in enumerate(points.groupby("sampler", sort=False)):
        colour, marker = LOOKS[name]
        first = problems[problems["seed"] == first_seed]
        left.plot(first["factory"], first["divergence"], color=COLOURS[colour], marker=marker, linewidth=1, label=name)
        low, high = problems["divergence"].min(), problems["divergence"].max()
        right.plot([place, place], [low, high], color=COLOURS[colour], linewidth=7, alpha=0.7, solid_capstyle="butt")
        right.plot(place, problems["divergence"].mean(), "_", color="black", markersize=12, markeredgewidth=2)
        if name in printed:
            right.errorbar(place + 0.3, np.mean(printed[name]), np.ptp(printed[name]) / 2, color="black", capsize=4)
    for axes in (left, right):
        axes.axhline(iid, color="0.4", linestyle=":", linewidth=1.5)
    right.text(0.7, iid * 1.03, "independent samples", fontsize=9, color="0.3")
    names = list(points["sampler"].unique())
    right.set_xticks(range(len(names)), [name.replace(" (", "\n(") for name in names], rotation=60, fontsize=9)
    left.set(xlabel="factory", ylabel="divergence", title="one seed")
    left.set_xticks(sorted(points["factory"].unique()))
    right.set_title("all seeds (thick), printed (thin)")
    fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize=9, frameon=False)
    return fig


def over_iterations(frame: pd.DataFrame, iid: float) -> Figure:
    """Mean divergence of the super nodes while batches are used up, one line per way to pick devices."""
    fig, axes = plt.subplots(figsize=(8.5, 3.8), layout="constrained")
    for place, (name, rows) in enumerate(frame.groupby("sampler", sort=False)):
        counted = rows.assign(iteration=rows["iteration"] + 1)
        colour = COLOURS[7] if name == "Random" else COLOURS[place]
        plots.band(axes, counted, "divergence", _how_chosen(name), {"color": colour}, "iteration")
    axes.axhline(iid, color="0.4", linestyle=":", linewidth=1.5, label="independent samples")
    axes.set(xlabel="iteration of FedGS", ylabel="divergence", ylim=(0, None))
    axes.legend(fontsize=9)
    return fig


def durations(frame: pd.DataFrame, printed: dict[str, float]) -> Figure:
    """Fig. 4b: seconds of one selection on a logarithmic axis, the printed ones as diamonds."""
    fig, axes = plt.subplots(figsize=(8, 3.8))
    medians = frame.groupby("sampler", sort=False)["seconds"].median()
    axes.bar(medians.index, medians, color=[COLOURS[LOOKS[name][0]] for name in medians.index])
    axes.plot(list(printed), list(printed.values()), "D", color="black", markersize=8, label="printed")
    for place, value in enumerate(medians):
        axes.text(place, value * 1.25, brief_seconds(value), ha="center", fontsize=9)
    axes.set(yscale="log", ylabel="time of one selection in s")
    axes.set_ylim(medians.min() / 3, max([*medians, *printed.values()]) * 3)
    axes.set_xticks(range(len(medians)), [name.replace(" (", "\n(") for name in medians.index])
    axes.legend()
    return fig


def brief_seconds(seconds: float) -> str:
    """12.3 µs, 3.45 ms or 5.67 s."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.1e} s"


def races(trace: pd.DataFrame) -> Figure:
    """Fig. 4c: the best divergence so far against elapsed time."""
    fig, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for name, reports in trace.groupby("sampler", sort=False):
        colour, marker = LOOKS[name]
        axes.step(reports["seconds"], reports["divergence"], where="post", color=COLOURS[colour], linewidth=1.6)
        last = reports.iloc[-1]
        axes.plot(last["seconds"], last["divergence"], marker, color=COLOURS[colour], markersize=9, label=name)
    best = trace["divergence"].min()
    axes.axhline(best, color="black", linestyle="--", linewidth=1)
    axes.set(xscale="log", xlabel="elapsed time in s", ylabel="best divergence so far")
    fig.legend(loc="outside right upper", fontsize=9, frameon=False)
    return fig


def participation(taken: pd.DataFrame) -> Figure:
    """How often the devices took part, one histogram per way to choose them."""
    fig, axes = plt.subplots(figsize=(7.5, 3.6))
    bins = np.linspace(0, taken["times"].max() + 1, 40)
    for place, (name, devices) in enumerate(taken.groupby("sampler", sort=False)):
        axes.hist(devices["times"], bins, color=COLOURS[place], alpha=0.6, label=_how_chosen(name))
    axes.set(xlabel=f"iterations of {taken['iterations'].iloc[0]} in which a device took part", ylabel="devices")
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])
    axes.legend()
    return fig


def _how_chosen(name: str) -> str:
    return {"GBP-CS": "GBP-CS, pre-sample in every iteration", "Random": "all at random"}.get(name, name)
