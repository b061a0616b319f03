"""Figures of the ACFMO notebooks; curves over rounds are drawn by `fedlib.report.plots.panels`."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from fedlib.report import plots


def sample_and_split(image: pd.DataFrame, counts: ndarray) -> Figure:
    """One image of the data set (`experiments.first_image`), and which device holds how many samples of each class."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=[1, 1.6])
    left.imshow(image.drop(columns="label"), cmap="gray_r")
    left.set(title=f"one sample, label {image['label'].iloc[0]}", xticks=[], yticks=[])
    plots.heatmap(counts, ax=right)
    return fig


def growth_factors(factors: pd.DataFrame, beta1: float = 0.9) -> Figure:
    """Growth factor per round over step x curvature, for both readings of Eq. (4)."""
    fig, axes = plt.subplots(figsize=(7, 3.8))
    axes.plot(factors["step x curvature"], factors["this round"], label="this round's moments")
    axes.plot(factors["step x curvature"], factors["lag"], linestyle="--", label="moments lag one round (as printed)")
    axes.axhline(1, color="0.25", linestyle=":")
    axes.set(xscale="log", xlabel="step size x curvature", ylabel="growth factor per round", ylim=(0.8, 2))
    axes.legend(title=rf"$\beta_1 = {beta1}$")
    return fig


def step_sizes(ends: pd.DataFrame, rounds: int) -> Figure:
    """Accuracy over the server's step, one line per reading of Eq. (4)."""
    fig, axes = plt.subplots(figsize=(7, 3.8))
    for variant, runs in ends.groupby("variant"):
        dash = "--" if variant == "printed" else "-"
        axes.plot(runs["server_lr"], runs["accuracy"], marker="o", linestyle=dash, label=variant)
    axes.set(xscale="log", xlabel=r"$\alpha_g^0$ (the paper: 0.02)", ylabel=f"accuracy after {rounds} rounds")
    axes.legend(title=None)
    return fig


def local_weight(weight: pd.DataFrame) -> Figure:
    """The local part over the central step, round by round, one line per participation level."""
    fig, axes = plt.subplots(figsize=(7, 3.8))
    for level, rows in weight.groupby("participation"):
        axes.plot(rows["round"], rows["ratio"], marker="o", markersize=3, label=f"{level:.0%} of the devices")
    axes.set(yscale="log", xlabel="communication round", ylabel="local part / central step")
    axes.set_xticks(range(0, 21, 5))
    axes.legend(title=None)
    return fig


def theory(rates: pd.DataFrame, curves: pd.DataFrame, minima: pd.DataFrame) -> Figure:
    """Local step and local iterations over the target rate, and the bound b(q) with its minima."""
    fig, (steps, iterations, bound) = plt.subplots(1, 3, figsize=(13, 3.8))
    steps.plot(rates["target"], rates["step"])
    steps.set(xlabel=r"target rate $\hat\varphi$", ylabel=r"local step $\alpha_l^*$")
    iterations.plot(rates["target"], rates["iterations"])
    iterations.set(xlabel=r"target rate $\hat\varphi$", ylabel="local iterations $K^*$", yscale="log")
    _draw_bound(bound, curves, minima)
    fig.tight_layout()
    return fig


def _draw_bound(axes: Axes, curves: pd.DataFrame, minima: pd.DataFrame) -> None:
    for target, curve in curves.groupby("target"):
        axes.plot(curve["q"], curve["b"], label=rf"$\hat\varphi$ = {target}")
    axes.plot(minima["q*"], minima["b(q*)"], "k^", label="minimum, Eq. (80)")
    axes.set(xlabel="q", ylabel="b(q)", yscale="log")
    axes.set_ylim(top=40 * curves["b"].max())
    axes.legend(title=None, ncols=2, loc="upper center")
