"""What `00_start_here.ipynb` needs: its federations, runs and pictures, and the sliders at its end."""

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
import torch
from matplotlib.figure import Figure

from fedlib import engine
from fedlib.algorithms import create
from fedlib.problem import skew
from fedlib.problem.federation import Federation, federate
from fedlib.report import drift, holdings, plots, sliders
from fedlib.runs.computations import computation
from fedlib.runs.states import state_after
from fedlib.runs.study import Run

ALIKE = 100.0  # a concentration at which all clients hold nearly the same mixture
SENTENCE = (
    "A client holds {digits per client:.1f} digits (effective number). Its model gets "
    "{accuracy of a client's model:.0%} right, the average of the models {accuracy of their average:.0%}. {kept:.0%} "
    "of the clients' moves is left after averaging."
)


def problem(alpha: float, clients: int, samples: int) -> dict:
    """Arguments of `federate`: MNIST for clients of equal size whose class mixtures are drawn from Dirichlet(alpha)."""
    return {
        "data_set": "mnist",
        "partitioner": "dirichlet_clients",
        "clients": clients,
        "alpha": alpha,
        "network": "mlp200",
        "samples": samples,
        "test_samples": min(samples, 2000),
    }


def run(algorithm: str, name: str, federation: dict, rounds: int, seed: int, **options) -> Run:
    """One run, called `name` in tables and pictures."""
    return Run(algorithm, federation, rounds, seed, options, label={"method": name})


def after(federation: Federation, rounds: int, **options) -> torch.Tensor:
    """The server's model after some rounds of FedAvg; its first model after none."""
    return state_after(create("fedavg", **options), federation, rounds)["weights"]


@computation
def moves(federation: dict, seed: int, local: dict, rounds: int, learnt_on: dict) -> pd.DataFrame:
    """Where one round of local training takes the clients from a model that FedAvg has trained on another federation.

    Both are given by the arguments of `federate`; the model comes from this many rounds. `drift.from_frame` reads it.
    """
    model = after(federate(**learnt_on, seed=seed), rounds, **local)
    return drift.to_frame(drift.measure(federate(**federation, seed=seed), model, engine.Work(**local), rounds + 1))


def partitions(held: dict[str, holdings.Holdings]) -> Figure:
    """Who holds what: one map a federation, clients across, classes up."""
    fig, axes = plt.subplots(1, len(held), figsize=(6.2 * len(held), 3.8), layout="constrained")
    most = max(int(own.counts.max()) for own in held.values())
    for ax, (name, own) in zip(axes, held.items(), strict=True):
        plots.heatmap(own.counts, ax=ax, most=most)
        ax.set(title=name, ylabel="digit")
    return fig


def curves(frame: pd.DataFrame, value: str = "accuracy", label: str = "test accuracy") -> Figure:
    """One line a method over the rounds, with a band of one standard deviation over seeds."""
    fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    names = list(frame["method"].unique())
    seaborn.lineplot(
        frame,
        x="round",
        y=value,
        hue="method",
        style="method",
        hue_order=names,
        style_order=names,
        errorbar="sd",
        ax=ax,
    )
    ax.set(xlabel="communication round", ylabel=label, xlim=(0, frame["round"].max()), ylim=(0, 1))
    ax.legend(title=None, loc="lower right")
    return fig


def drifts(found: dict[str, drift.Drift]) -> Figure:
    """One column a federation: the clients' moves above, what their models know below."""
    fig, axes = plt.subplots(2, len(found), figsize=(6 * len(found), 8), layout="constrained", height_ratios=[1, 1.1])
    reach = 1.08 * max(each.length.max() for each in found.values())
    side = 1.15 * max((each.length * np.sin(np.radians(each.angle))).max() for each in found.values())
    for (above, below), (name, each) in zip(axes.T, found.items(), strict=True):
        drift.arrows(each, above)
        above.set(title=name, xlim=(-0.2 * reach, reach), ylim=(-side, side))
        drift.knowledge(each, below)
        below.set_ylabel("digit")
    return fig


def explored(alpha: float, epochs: int, clients: int, samples: int, seed: int, **work) -> tuple[Figure, pd.DataFrame]:
    """One federation: who holds what, and where one round of local training takes the clients; with its numbers."""
    deal = problem(alpha, clients, samples)
    held = holdings.held(deal, seed)
    found = drift.from_frame(moves(deal, seed, {"epochs": epochs, **work}, 0, deal))
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[1.5, 1])
    plots.heatmap(held.counts, ax=left)
    left.set(title=f"who holds what, alpha = {alpha:.3g}", ylabel="digit")
    drift.arrows(found, right)
    right.set_title(f"where {epochs} epoch{'s' if epochs > 1 else ''} take the clients")
    return fig, found.table().assign(**{"digits per client": skew.effective_classes(held.counts).mean()})


def explorer(alpha: float, epochs: int, **others) -> ipywidgets.VBox:
    """Sliders above `explored`."""

    def draw(alpha: float, epochs: int) -> tuple[Figure, str]:
        fig, table = explored(alpha, epochs, **others)
        return fig, SENTENCE.format(**table.iloc[0])

    return sliders.explorer(
        draw,
        alpha=ipywidgets.FloatLogSlider(alpha, min=-1.5, max=2, step=0.25, description="alpha", readout_format=".3g"),
        epochs=ipywidgets.IntSlider(epochs, min=1, max=20, description="epochs"),
    )
