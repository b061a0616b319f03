"""Figures of the FedACS notebooks: environments (Fig. 1), system (Fig. 3), rewards (Fig. 4), curves, participants."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from scipy import stats

from fedlib.problem import partition, skew
from fedlib.problem.streams import generator
from fedlib.report import plots

COLOURS = seaborn.color_palette("colorblind")
# Each method has a colour and a dash, its variants the same colour with dots; the baseline is solid and black.
BLACK = (0.1, 0.1, 0.1)
LOOKS = {
    "iid": (COLOURS[7], "-"),
    "baseline": (BLACK, "-"),
    "FedACS": (COLOURS[3], "-"),
    "FedACS, released": (COLOURS[3], (0, (1, 1))),
    "Rexp3": (COLOURS[2], (0, (5, 1, 1, 1, 1, 1))),
    "Rexp3, own paper": (COLOURS[2], (0, (1, 1))),
    "CMFL": (COLOURS[4], "-."),
    "CMFL, own paper": (COLOURS[4], (0, (1, 4))),
    "Oort": (COLOURS[0], "--"),
    "baseline, as few images": (BLACK, (0, (1, 1))),
    "Oort, no ban": (COLOURS[0], "-"),
    "FedACS, right labels": (COLOURS[3], (0, (1, 1))),
    "Oort, no ban, right labels": (COLOURS[0], (0, (1, 1))),
    "uniform": (COLOURS[2], "--"),
    "inverse Pareto": (COLOURS[3], "-."),
    "Dirichlet": (COLOURS[4], (0, (5, 1, 1, 1))),
    "few-class": (COLOURS[5], ":"),
}
FLOWS = (
    ("server", "client", "model", "federated learning"),
    ("client", "client", "E epochs of training: new model", "federated learning"),
    ("client", "client", "one full-batch gradient of the last layer: insight", "FedACS: insight derivation"),
    ("client", "server", "new model and insight", "both"),
    ("server", "server", "mean of the models", "federated learning"),
    ("server", "server", "distance of each insight to their mean: Q", "FedACS: skewness estimation"),
    ("server", "server", "duels by -Q; next participants", "FedACS: client selection"),
)


def environments(
    clients: int, bins: int, betas: tuple[float, float], seed: int
) -> tuple[Figure, pd.DataFrame, pd.DataFrame]:
    """Fig. 1: two histograms of alpha with their densities, class shares of 20 clients at each of two betas.

    Returns the counts of the histograms and a short text of all panels.
    """
    alphas = {
        "uniform": partition.uniform_alphas(clients, rng=generator(seed, "uniform")),
        "inverse Pareto": partition.inverse_pareto_alphas(clients, 2.0, rng=generator(seed, "pareto")),
    }
    edges = np.linspace(0, 1, bins + 1)
    counts = {name: np.histogram(values, edges)[0] for name, values in alphas.items()}
    fig, grid = plt.subplots(2, 2, figsize=(11, 7), layout="constrained")
    grid[0, 1].sharey(grid[0, 0])
    densities = {"uniform": np.ones_like, "inverse Pareto": partition.inverse_pareto_density}
    for axes, (name, heights) in zip(grid[0], counts.items(), strict=True):
        axes.bar(edges[:-1], heights, 1 / bins, align="edge", color=COLOURS[0], edgecolor="white")
        axes.plot(edges, densities[name](edges) * clients / bins, color=COLOURS[3], label="expected")
        axes.set(title=f"{name}, {clients} clients", xlabel="alpha", ylabel="clients")
        axes.legend(loc="upper left")
    class_counts = {beta: _dirichlet_counts(beta, seed) for beta in betas}
    for axes, (beta, clients_by_class) in zip(grid[1], class_counts.items(), strict=True):
        plots.stacked_bars(clients_by_class, ax=axes)
        axes.set_title(f"20 Dirichlet clients, beta = {beta:g}")
        axes.set_xticks(range(0, len(clients_by_class), 5))
    histogram = pd.DataFrame({"alpha from": edges[:-1], "alpha to": edges[1:]} | counts)
    about = {f"{name}, mean alpha": values.mean() for name, values in alphas.items()}
    for beta, clients_by_class in class_counts.items():
        about[f"beta = {beta:g}, effective classes"] = skew.effective_classes(clients_by_class).mean()
    return fig, histogram, pd.DataFrame({"mean over clients": about}).round(2)


def _dirichlet_counts(beta: float, seed: int) -> np.ndarray:
    """Class counts of 20 clients with 1000 samples each."""
    shares = generator(seed, "dirichlet").dirichlet(np.full(10, beta), size=20)
    return np.rint(1000 * shares).astype(int)


def system() -> tuple[Figure, pd.DataFrame]:
    """Fig. 3: what client and server do in a round, and which part of it is plain federated learning."""
    fig, axes = plt.subplots(figsize=(10, 4.6))
    axes.set(xlim=(0, 12), ylim=(0, 6))
    axes.axis("off")
    for left, width, name in ((0.1, 4.6, "client (each participant)"), (6.9, 5.0, "server")):
        axes.add_patch(FancyBboxPatch((left, 0.1), width, 5.3, boxstyle="round,pad=0.05", fc="0.97", ec="0.6"))
        axes.text(left + width / 2, 5.1, name, ha="center", fontsize=11)
    plots.box(axes, (0.4, 3.3), (4.0, 1.2), "local training\nE epochs, minibatches", COLOURS[2])
    plots.box(axes, (0.4, 0.6), (4.0, 1.4), "insight derivation\none full-batch gradient,\nlast layer only", COLOURS[3])
    plots.box(axes, (7.2, 3.3), (4.4, 1.2), "averaging\nnew global model", COLOURS[2])
    formula = "$Q_i = \\sqrt{M_i}\\,\\|\\Delta w_i - \\overline{\\Delta w}\\|$"
    plots.box(axes, (7.2, 1.8), (4.4, 1.0), f"skewness estimation\n{formula}", COLOURS[3])
    plots.box(axes, (7.2, 0.35), (4.4, 1.0), "client selection\ndueling bandit, rewards $-Q_i$", COLOURS[3])
    for start, end, text, height in (
        ((4.5, 3.7), (7.1, 3.7), "model", 3.4),
        ((7.1, 4.2), (4.5, 4.2), "model", 4.35),
        ((4.5, 1.5), (7.1, 2.2), "insight", 2.15),
    ):
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "lw": 1.8, "color": "0.25"})
        axes.text(5.8, height, text, ha="center", fontsize=10)
    axes.annotate("", (9.4, 1.45), (9.4, 1.75), arrowprops={"arrowstyle": "->", "lw": 1.8, "color": "0.25"})
    axes.annotate("", (4.8, 0.25), (7.1, 0.6), arrowprops={"arrowstyle": "->", "lw": 1.8, "color": "0.25"})
    axes.text(5.75, 0.75, "who is next", ha="center", fontsize=10)
    return fig, pd.DataFrame(FLOWS, columns=["from", "to", "what", "part of"])


def rewards(groups: pd.DataFrame, clients: pd.DataFrame, rho: pd.DataFrame, round: int) -> Figure:
    """Fig. 4 for the first seed, and the rank correlation for all seeds."""
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained", width_ratios=[1.3, 1, 1])
    first = groups["seed"].min()
    palette = seaborn.color_palette("viridis", groups["alpha"].nunique())
    by_alpha = groups[groups["seed"] == first].groupby("alpha")
    for number, (colour, (alpha, group)) in enumerate(zip(palette, by_alpha, strict=True), start=1):
        left.plot(group["round"], group["median"], color=colour, label=f"G{number}: {alpha:g}")
        left.fill_between(group["round"], group["low"], group["high"], color=colour, alpha=0.2, linewidth=0)
    left.set(xlabel="communication round", ylabel="reward", title="median and range")
    fig.legend(*left.get_legend_handles_labels(), title="group and its alpha", loc="outside lower center", ncols=6)
    chosen = clients[(clients["seed"] == first) & (clients["round"] == round)]
    seaborn.swarmplot(chosen, x="alpha", y="reward", hue="alpha", palette="viridis", legend=False, ax=middle)
    middle.set(title=f"each client in round {round}")
    for _, of_seed in rho.groupby("seed"):
        right.plot(of_seed["round"], of_seed["rho"], color=COLOURS[0], marker="o", markersize=4)
    right.set(xlabel="communication round", ylabel="Spearman's rho of Q and alpha", title="all observed clients")
    right.set_ylim(min(0, rho["rho"].min()), 1.02)
    return fig


def curves(frame: pd.DataFrame, hue: str, value: str = "accuracy", ylabel: str = "test accuracy") -> Figure:
    """One line per level of `hue` over rounds, a band of one standard deviation over seeds."""
    fig, axes = plt.subplots(figsize=(7.6, 4.4))
    _curves(axes, frame, hue, value, ylabel)
    return fig


def _curves(axes: Axes, frame: pd.DataFrame, hue: str, value: str = "accuracy", ylabel: str = "test accuracy") -> None:
    for level, look in _looks(frame[hue]).items():
        plots.band(axes, frame[frame[hue] == level], value, level, look)
    axes.set(xlabel="communication round", ylabel=ylabel)
    axes.legend(fontsize=9)


def _looks(column: pd.Series) -> dict[str, dict]:
    """Colour and dash of each level: methods and environments have their own, others are shades in their order."""
    levels = list(column.unique())
    shades = seaborn.color_palette("viridis", len(levels))
    known = {name: {"color": colour, "linestyle": dash} for name, (colour, dash) in LOOKS.items()}
    return {level: known.get(level, {"color": shade}) for level, shade in zip(levels, shades, strict=True)}


def tolerances(frame: pd.DataFrame, ends: pd.DataFrame) -> Figure:
    """Fig. 7: curves and final accuracies; the baseline, which has no lambda, is a line."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.4), layout="constrained")
    _curves(left, frame, "curve")
    by_tolerance = ends[ends["tolerance"].notna()].groupby("tolerance")["accuracy"]
    mean, spread = by_tolerance.mean(), by_tolerance.std().fillna(0)
    baseline = ends.loc[ends["tolerance"].isna(), "accuracy"].mean()
    right.errorbar(mean.index, mean, spread, marker="o", capsize=3, color=COLOURS[3], label="FedACS")
    right.axhline(baseline, color=BLACK, linestyle="--", label="baseline")
    right.set(xlabel="tolerance lambda", ylabel="terminal accuracy", xticks=list(mean.index))
    right.legend()
    return fig


def participants(alphas: pd.DataFrame, frame: pd.DataFrame) -> Figure:
    """Fig. 8: alpha and reward of those who took part."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.2), layout="constrained")
    _curves(left, alphas, "method", "alpha", "mean alpha of the participants")
    left.set_ylim(0, None)
    _curves(right, frame, "method", "reward", "mean reward of the participants")
    return fig


def participations(tally: pd.DataFrame, clients: int) -> Figure:
    """Fig. 9: one panel per lambda; clients of the desired pool dark, the others light; means over seeds."""
    values = sorted(tally["tolerance"].unique())
    fig, row = plt.subplots(1, len(values), figsize=(6.2 * len(values), 3.8), layout="constrained", squeeze=False)
    for axes, value in zip(row[0], values, strict=True):
        times = tally[tally["tolerance"] == value].groupby("place")["times"].mean()
        end = round(value * clients)
        edges = np.arange(len(times) + 1) + 0.5
        for part, colour in ((slice(None, end), COLOURS[0]), (slice(end, None), COLOURS[7])):
            axes.stairs(
                times.iloc[part], edges[part.start : None if part.stop is None else end + 1], fill=True, color=colour
            )
        axes.axvline(end + 0.5, color=COLOURS[3], linestyle="--", label=f"first {end} clients")
        axes.set(xlabel="client, sorted by alpha", ylabel="times it took part", title=f"lambda = {value:g}")
        axes.legend()
    return fig


def selectors_at_fixed_model(alphas: pd.DataFrame, tally: pd.DataFrame) -> Figure:
    """Mean alpha by round and final participations at a fixed model, selector by selector."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.4), layout="constrained")
    _curves(left, alphas, "curve", "alpha", "mean alpha of the participants")
    left.set_ylim(0, None)
    left.get_legend().remove()  # the right panel has the same
    last = tally[tally["round"] == tally["round"].max()]
    for name, look in _looks(last["curve"]).items():
        times = last[last["curve"] == name].groupby("place")["times"].mean()
        right.plot(times.index, times.rolling(5, center=True, min_periods=1).mean(), label=name, **look)
    right.set(xlabel="client, sorted by alpha", ylabel="times it took part (mean of 5 neighbours)")
    right.legend(fontsize=9)
    return fig


def betas(frame: pd.DataFrame, rounds: list[int]) -> Figure:
    """Densities of Beta(A + 1, B + 1) of a mild and a skewed client after some rounds, one panel per round."""
    fig, row = plt.subplots(1, len(rounds), figsize=(3.4 * len(rounds), 3.2), layout="constrained", sharey=True)
    grid = np.linspace(0, 1, 401)
    dashes = {"mild": (COLOURS[2], "-"), "skewed": (COLOURS[3], "--")}
    for axes, number in zip(np.atleast_1d(row), rounds, strict=True):
        for client in frame[frame["round"] == number].itertuples():
            colour, dash = dashes[client.client]
            density = stats.beta.pdf(grid, client.a + 1, client.b + 1)
            axes.plot(grid, density, color=colour, linestyle=dash, label=f"{client.client}, alpha {client.alpha:.2f}")
        axes.set(title=f"after round {number}", xlabel="draw")
    np.atleast_1d(row)[0].set_ylabel("density")
    np.atleast_1d(row)[0].legend(fontsize=9)
    return fig


def signals(rhos: pd.DataFrame) -> Figure:
    """Rank correlation with alpha of what clients report to the server, one bar per model."""
    fig, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
    seaborn.barplot(rhos, y="signal", x="rho", hue="model", ax=axes, errorbar="sd")
    axes.axvline(0, color="0.25", linewidth=1)
    axes.set(xlabel="Spearman's rho with alpha", ylabel="", xlim=(-1, 1))
    axes.legend(fontsize=9)
    return fig


def poisoners_at_fixed_models(shares: pd.DataFrame, even: float) -> Figure:
    """Poisoners' share of each selector's participations at fixed models, one bar per condition."""
    fig, axes = plt.subplots(figsize=(9, 4.2))
    seaborn.barplot(shares, x="selector", y="share", hue="condition", ax=axes, errorbar="sd")
    axes.axhline(even, color="0.25", linestyle=":", label="even draw")
    axes.set(xlabel="", ylabel="share of participations", ylim=(0, 1))
    axes.legend(fontsize=9)
    return fig


def poisoners(shares: pd.DataFrame, even: float) -> Figure:
    """The poisoners' share of all participations so far, over rounds; dotted, the same clients with right labels."""
    fig, axes = plt.subplots(figsize=(7.6, 4.4))
    wrong = shares["condition"] == "wrong labels"
    lines = shares.assign(line=shares["selector"].where(wrong, shares["selector"] + ", " + shares["condition"]))
    _curves(axes, lines[lines["round"] > 0], "line", "share", "poisoners' share of participations")
    axes.axhline(even, color="0.25", linestyle=":", label="even draw")
    axes.set_ylim(0, None)
    axes.legend(fontsize=9)
    return fig
