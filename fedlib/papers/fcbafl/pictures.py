"""Figures of the FCBAFL notebooks: the system (Fig. 1), a toy with two devices, curves, energies over a sweep, maps,
and sliders on one cell.

A cell is a radio cell with its devices, a draw is one random placement of them, a plan is an allocation that meets the
deadline. Schemes: random, average or optimal frequency (RF, AF, OF); random, average (equal), SNR-based or optimal
allocation of the band (RA, AA, SA, OA).
"""

from dataclasses import replace

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from matplotlib.typing import ColorType

from fedlib import wireless
from fedlib.papers.fcbafl.experiments import FULL, IN_TIME, ONE_STEP, best_scheme, one_round
from fedlib.report import plots, sliders
from fedlib.wireless import Devices, Scenario

COLOURS = seaborn.color_palette("colorblind")
FLOWS = (
    ("device n", "server", "local model w_n and gradient grad F_n(w_n)"),
    ("server", "device n", "model w and gradient gbar, averaged by data size"),
    ("server", "device n", "share b_n of the band"),
    ("device n", "device n", "Q_l local iterations at frequency f_n"),
)


def system() -> tuple[Figure, pd.DataFrame]:
    """Fig. 1: who sends what to whom."""
    fig, axes = plt.subplots(figsize=(8.5, 4.2))
    axes.set(xlim=(0, 10), ylim=(0, 5.4))
    axes.axis("off")
    plots.box(
        axes, (2.7, 4.1), (4.6, 1.1), "server\naverages models (10) and gradients (11)\nshares out the band", COLOURS[0]
    )
    for position, name in enumerate(("device 1", "device 2", "device N")):
        left = (0.2, 3.7, 7.2)[position]
        text = f"{name}\nown data, own channel\n$Q_l$ iterations at $f_{name[-1]}$"
        plots.box(axes, (left, 0.2), (2.6, 1.3), text, COLOURS[1])
        middle, target = left + 1.3, 5 + (position - 1) * 1.2
        _arrow(axes, (middle - 0.2, 1.55), (target - 0.2, 4.05), COLOURS[2])
        _arrow(axes, (target + 0.2, 4.05), (middle + 0.2, 1.55), COLOURS[3])
    axes.text(6.75, 0.85, "...", ha="center", fontsize=16)
    axes.text(0.2, 3.3, "up, on the share $b_n$:\n$w_n$, $\\nabla F_n(w_n)$", color=COLOURS[2], fontsize=10)
    axes.text(7.6, 3.3, "down, to all:\n$w$, $\\bar g$", color=COLOURS[3], fontsize=10)
    return fig, pd.DataFrame(FLOWS, columns=["from", "to", "what"])


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: ColorType) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.8})


# Two devices with quadratic losses F_n(w) = (w - m_n)' H_n (w - m_n) / 2.
CURVATURE = np.array([[2.0, 0.4], [0.4, 2.0]])  # diagonals of H_1 and H_2
MINIMA = np.array([[-1.0, 0.6], [1.0, -0.6]])  # m_1 and m_2
OPTIMUM = (CURVATURE * MINIMA).sum(0) / CURVATURE.sum(0)  # of the mean loss


def toy_rounds(start: np.ndarray, eta: float | None, rounds: int, lr: float = 0.1, steps: int = 20) -> list[np.ndarray]:
    """Paths of both devices in each round, (2, steps + 1, 2): FedAvg (eta None) or FCBAFL with full batches."""
    gradient, paths = (CURVATURE * (start - MINIMA)).mean(0), []  # gbar^0
    for _ in range(rounds):
        at_start = CURVATURE * (start - MINIMA)
        shift = 0 * at_start if eta is None else eta * gradient - at_start  # (6) without grad F_n(w)
        path = [np.stack([start, start])]
        for _ in range(steps):
            path.append(path[-1] - lr * (CURVATURE * (path[-1] - MINIMA) + shift))
        start = path[-1].mean(0)  # (10)
        gradient = (CURVATURE * (path[-1] - MINIMA)).mean(0)  # (11)
        paths.append(np.stack(path, axis=1))
    return paths


def toy(panels: dict[str, float | None], start: tuple[float, float] = (-1.4, -1.1)) -> tuple[Figure, pd.DataFrame]:
    """One panel per method: the devices' paths in the first round, and their averages after each of 20 rounds."""
    fig, row = plt.subplots(1, len(panels), figsize=(3.3 * len(panels), 3.9), sharex=True, sharey=True)
    distances = {}
    for axes, (title, eta) in zip(row, panels.items(), strict=True):
        paths = toy_rounds(np.array(start), eta, 20)
        averages = np.stack([np.array(start), *(path[:, -1].mean(0) for path in paths)])
        _draw_toy(axes, paths[0], averages)
        axes.set(title=title, xlabel="first weight")
        distance = ((averages - OPTIMUM) ** 2).sum(1) ** 0.5
        distances[title] = {f"round {round}": distance[round] for round in (0, 1, 5, 20)}
    row[0].set_ylabel("second weight")
    fig.legend(*row[0].get_legend_handles_labels(), loc="lower center", ncols=3, frameon=False)
    fig.subplots_adjust(bottom=0.34)
    return fig, pd.DataFrame(distances).T.rename_axis("distance to the minimum").round(3)


def _draw_toy(axes: Axes, first: np.ndarray, averages: np.ndarray) -> None:
    span = np.meshgrid(np.linspace(-1.8, 1.4, 80), np.linspace(-1.4, 1.0, 80))
    loss = sum((CURVATURE[n, k] * (span[k] - MINIMA[n, k]) ** 2) for n in range(2) for k in range(2))
    axes.contour(*span, loss, levels=8, colors="0.85", linewidths=0.8)
    for device, path in enumerate(first):
        axes.plot(*path.T, ".-", color=COLOURS[device], markersize=4, label=f"device {device + 1}, first round")
        axes.plot(*MINIMA[device], "x", color=COLOURS[device], markersize=8, label=f"its minimum ({device + 1})")
    axes.plot(*averages.T, "D-", color="black", markersize=4, linewidth=0.8, label="average, round by round")
    axes.plot(*OPTIMUM, "*", color=COLOURS[3], markersize=13, label="global minimum")
    axes.grid(False)


def accuracies(frame: pd.DataFrame) -> Figure:
    """Figs. 2 and 3; the axis begins at 0.76, which may cut off the first rounds."""
    return _curves(frame, "accuracy", "test accuracy", (0.76, frame["accuracy"].max() + 0.005))


def losses(frame: pd.DataFrame) -> Figure:
    """Figs. 4 and 5, on a logarithmic axis that ends at 1.5."""
    low, high = 0.95 * frame["train_loss"].min(), 1.5
    fig = _curves(frame, "train_loss", "training loss F(w)", (low, high))
    for axes in fig.axes:
        axes.set_yscale("log")
        ticks = [tick for tick in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4) if low <= tick <= high]
        axes.set_yticks(ticks, map(str, ticks))
        axes.minorticks_off()
    return fig


def _curves(frame: pd.DataFrame, value: str, label: str, limits: tuple[float, float]) -> Figure:
    """One row per setting, one panel per batch, one line per curve: at its own step size a full line with a band of one
    standard deviation over seeds, at the common one a thin dotted line."""
    settings, batches = list(frame["setting"].unique()), list(frame["batch"].unique())
    shape, size = (len(settings), len(batches)), (3.4 + 3.6 * len(batches), 0.6 + 3.4 * len(settings))
    fig, grid = plt.subplots(*shape, figsize=size, sharey=True, squeeze=False, layout="constrained")
    for row, setting in zip(grid, settings, strict=True):
        of_setting = frame[frame["setting"] == setting]
        for axes, batch in zip(row, batches, strict=True):
            _draw_curves(axes, of_setting[of_setting["batch"] == batch], value)
            axes.set(title=f"{setting}: {batch_name(batch)}", xlabel="communication round", ylim=limits)
        row[0].set_ylabel(label)
        row[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    return fig


def batch_name(batch: str) -> str:
    return f"{batch} batches" if batch == FULL else f"batches of {batch}"


def _draw_curves(axes: Axes, frame: pd.DataFrame, value: str) -> None:
    for (curve, step), runs in frame.groupby(["curve", "step"], sort=False):
        if step == ONE_STEP:
            mean, thin = runs.groupby("round")[value].mean(), {"linestyle": (0, (1, 1)), "linewidth": 1.2}
            axes.plot(mean.index, mean, color=_colour(str(curve)), label=f"{curve}, common step size", **thin)
        else:
            plots.band(axes, runs, value, curve, {"color": _colour(str(curve)), "linewidth": 1.8})


def _colour(curve: str) -> ColorType:
    """FedAvg is blue; FCBAFL's colour depends on eta, and is grey for values that the paper does not use."""
    if curve == "FedAvg":
        return COLOURS[0]
    return COLOURS[{0.2: 1, 0.5: 2, 1.0: 3, 2.0: 4, 4.0: 5}.get(float(curve.rsplit(" ", 1)[1]), 7)]


def energy_bars(frame: pd.DataFrame) -> Figure:
    """Energy to the target by curve, one panel per setting and batch; hatched if some run never reached the target."""
    places = frame[["setting", "batch"]].drop_duplicates().itertuples(index=False)
    panels = [(place.setting, place.batch) for place in places]
    fig, row = plt.subplots(1, len(panels), figsize=(2.3 * len(panels), 3.8), squeeze=False, layout="constrained")
    for axes, (setting, batch) in zip(row[0], panels, strict=True):
        panel = frame[(frame["setting"] == setting) & (frame["batch"] == batch)].groupby("curve", sort=False)
        mean, spread, arrived = panel["energy_kj"].mean(), panel["energy_kj"].std().fillna(0), panel["reached"].all()
        names = [str(curve).replace("FCBAFL, eta ", "eta ") for curve in mean.index]
        bars = axes.bar(names, mean, yerr=spread, color=[_colour(str(curve)) for curve in mean.index], capsize=3)
        for bar, all_arrived in zip(bars, arrived, strict=True):
            bar.set_hatch("" if all_arrived else "///")
        axes.set_title(f"{setting}\n{batch_name(batch)}", fontsize=10)
        axes.tick_params(axis="x", rotation=60)
    row[0, 0].set_ylabel("energy to the target in kJ")
    return fig


def one_device(device: Devices, deadline_s: float) -> tuple[Figure, pd.DataFrame]:
    """A device's energy for sending and for computing just fast enough, depending on its share of the band."""
    share = np.geomspace(0.0025, 0.05, 200)[:, None]
    frequency_hz = wireless.optimal_frequency(device, share, deadline_s)
    frame = pd.DataFrame(
        {
            "share, %": 100 * share[:, 0],
            "GHz": frequency_hz[:, 0] / 1e9,
            "sending": wireless.transmit_energy_j(device, share)[:, 0],
            "computing": wireless.compute_energy_j(device, frequency_hz)[:, 0],
        }
    )
    frame["both"] = frame["sending"] + frame["computing"]
    fig, axes = plt.subplots(figsize=(7, 3.8))
    for part, width in (("sending", 1.5), ("computing", 1.5), ("both", 3)):
        axes.plot(frame["share, %"], frame[part], label=part, linewidth=width)
    axes.set(xlabel="share of the band in %", ylabel="energy of the device in J", xscale="log", ylim=(0, None))
    axes.set_xticks(ticks := [0.3, 0.5, 1, 2, 3, 5], map(str, ticks))
    axes.minorticks_off()
    axes.legend()
    return fig, frame.iloc[::40].round(2).set_index("share, %")


def energies(frame: pd.DataFrame, axis: str, label: str, log: bool = False) -> Figure:
    """Mean energy per round over a sweep, one line per scheme.

    Solid: the scheme as printed, with a band of one standard deviation over draws, cut off at a tenth of the mean where
    the axis is logarithmic; a mark is hollow where, in more than half of the draws, a device misses the deadline or
    there is no plan. Dotted: our variant that meets the deadline.
    """
    fig, axes = plt.subplots(figsize=(7.2, 4.2))
    _draw_energies(axes, frame, axis, label, log)
    axes.set_ylabel("energy of a round in J")
    axes.legend(ncols=2, fontsize="small")
    return fig


def closest_sweeps(frame: pd.DataFrame) -> Figure:
    """The three sweeps of Figs. 6 to 8 side by side, the schemes as printed, in the setting whose savings are closest
    to the printed ones (`experiments.closest`)."""
    sweeps = {"fig6": ("deadline_s", "deadline in s"), "fig7": ("devices", "devices"), "fig8": ("devices", "devices")}
    fig, row = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    printed = frame[~frame["scheme"].str.endswith(IN_TIME)]
    for axes, (figure, (axis, label)) in zip(row, sweeps.items(), strict=True):
        _draw_energies(axes, printed[printed["figure"] == figure], axis, label, log=figure == "fig8")
        axes.set_title(f"Fig. {figure[-1]}")
        axes.legend(fontsize="small")
    row[0].set_ylabel("energy of a round in J")
    return fig


def _draw_energies(axes: Axes, frame: pd.DataFrame, axis: str, label: str, log: bool) -> None:
    points = frame[frame["sweep"] == "point"]
    schemes = list(dict.fromkeys(scheme.removesuffix(IN_TIME) for scheme in points["scheme"]))
    for scheme, rows in points.groupby("scheme", sort=False):
        position = schemes.index(scheme.removesuffix(IN_TIME))
        by_point = rows.groupby(axis)
        mean, spread = by_point["energy_j"].mean(), by_point["energy_j"].std().fillna(0)
        if scheme.endswith(IN_TIME):
            axes.plot(mean.index, mean, color=COLOURS[position], linestyle=":", linewidth=1.2, label=scheme)
            continue
        axes.plot(mean.index, mean, color=COLOURS[position], label=scheme)
        low = np.maximum(mean - spread, mean / 10) if log else mean - spread
        axes.fill_between(mean.index, low, mean + spread, color=COLOURS[position], alpha=0.2, linewidth=0)
        late = 1 - by_point["in_time"].mean()
        for hollow, chosen in ((True, mean[late > 0.5]), (False, mean[late <= 0.5])):
            face = "white" if hollow else COLOURS[position]
            axes.plot(chosen.index, chosen, "os^D"[position], color=COLOURS[position], markerfacecolor=face)
    axes.set(xlabel=label, yscale="log" if log else "linear", **({} if log else {"ylim": (0, None)}))


def saving_maps(
    grid: pd.DataFrame, printed: dict[tuple[str, str], float], plane: str, our_setting: tuple[float, float]
) -> Figure:
    """One heat map of the saving per printed percentage: a contour where the map reaches it, a cross at our setting.

    The capacitance is on the x-axis; `plane`, "radius" or "deadline", on the y-axis. Each map has its own colour scale.
    Grey: the optimal scheme needs more energy than the other one. Hatched: no plan in more than half of the draws.
    """
    y_column, label = {
        "radius": ("radius_km", "radius of the cell in km"),
        "deadline": ("deadline_s", "deadline in s"),
    }[plane]
    fig, panels = plt.subplots(2, 4, figsize=(13, 6.4), sharex=True, sharey=True, layout="constrained")
    for axes, ((figure, scheme), value) in zip(panels.flat, printed.items(), strict=False):
        chosen = grid[(grid["figure"] == figure) & (grid["scheme"] == scheme) & (grid["plane"] == plane)]
        savings = chosen.pivot(index=y_column, columns="capacitance", values="saving")
        no_plan = chosen.pivot(index=y_column, columns="capacitance", values="no_plan")
        mesh = _draw_map(axes, savings, no_plan, value, our_setting)
        fig.colorbar(mesh, ax=axes, format=PercentFormatter(1, decimals=1 if mesh.get_clim()[1] < 0.05 else 0))
        best = best_scheme(scheme)
        axes.set(xscale="log", yscale="log" if plane == "radius" else "linear")
        axes.set_title(f"Fig. {figure[-1]}: {best} on {scheme}, printed {value:.1%}", fontsize="medium")
    for axes in panels.flat[len(printed) :]:
        axes.axis("off")
    fig.supxlabel("capacitance sigma")
    fig.supylabel(label)
    return fig


def _draw_map(
    axes: Axes, savings: pd.DataFrame, no_plan: pd.DataFrame, printed: float, our_setting: tuple[float, float]
) -> QuadMesh:
    colours = seaborn.color_palette("mako_r", as_cmap=True).with_extremes(under="0.85")
    values = savings.to_numpy()
    low, high = max(np.nanmin(values), 0.0), max(np.nanmax(values), 0.001)
    mesh = axes.pcolormesh(savings.columns, savings.index, values, cmap=colours, vmin=low, vmax=high, shading="nearest")
    if np.nanmin(values) < printed < np.nanmax(values):
        axes.contour(savings.columns, savings.index, savings, levels=[printed], colors=[COLOURS[1]], linewidths=2.5)
    missing = np.ma.masked_less_equal(no_plan.to_numpy(), 0.5)
    if missing.count():
        axes.pcolor(savings.columns, savings.index, missing, hatch="//", alpha=0, shading="nearest")
    for width, colour in ((4, "black"), (2, "white")):
        axes.plot(*our_setting, "x", color=colour, markersize=9, markeredgewidth=width)
    return mesh


def joint_gaps(gaps: pd.DataFrame) -> Figure:
    """What the joint optimum saves over choosing shares of the band first, at a fixed frequency, and frequencies
    second; by deadline, one panel per fixed frequency, one line per number of devices; bands hold 90% of the draws."""
    frequencies = sorted(gaps["fixed_ghz"].unique())
    fig, row = plt.subplots(1, len(frequencies), figsize=(12, 4), sharey=True, squeeze=False, layout="constrained")
    counts = gaps.assign(devices=gaps["devices"].astype(str) + " devices")
    look = {"hue": "devices", "style": "devices", "markers": True, "errorbar": ("pi", 90)}
    for axes, ghz in zip(row[0], frequencies, strict=True):
        seaborn.lineplot(counts[counts["fixed_ghz"] == ghz], x="deadline_s", y="gap", ax=axes, **look)
        axes.set(title=f"shares chosen at {ghz:g} GHz", xlabel="deadline in s", ylabel="saved by the joint optimum")
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
        axes.legend(title=None)
    return fig


def rounds_of_both(table: pd.DataFrame) -> Figure:
    """Energy per round of FedAvg and FCBAFL as stacked bars, sending and computing; one panel per way to count the work
    (column `reading`)."""
    readings = list(table["reading"].unique())
    fig, row = plt.subplots(1, len(readings), figsize=(12, 4), sharey=True, squeeze=False, layout="constrained")
    for axes, reading in zip(row[0], readings, strict=True):
        bars = table[table["reading"] == reading]
        names = bars["method"] + "\n" + bars["batch"].map(lambda batch: f"batch {batch}")
        _stack(axes, names, bars[["sending_j", "computing_j"]].rename(columns=lambda name: name.removesuffix("_j")))
        axes.set_title(reading)
    row[0, 0].set_ylabel("energy of a round in J")
    row[0, 0].legend()
    return fig


def scheme_bars(frame: pd.DataFrame, title: str) -> Figure:
    """Sending and computing of each scheme as stacked bars; a bar far above the others is cut off and labelled."""
    fig, axes = plt.subplots(figsize=(7.2, 3.6))
    parts = frame[["sending", "computing"]]
    _stack(axes, frame.index, parts)
    total = parts.sum(axis=1, min_count=2)
    limit = 4 * total.min() if total.notna().any() else 1.0
    axes.set(ylabel="energy of a round in J", title=title, ylim=(0, min(1.15 * total.max(), limit)))
    for place, (joules, late) in enumerate(zip(total, frame["late"], strict=True)):
        words = "no plan" if np.isnan(joules) else f"{late:.0f} late" if late else ""
        words += f"\n{joules:.3g} J" if joules > limit else ""
        height = 0.0 if np.isnan(joules) else min(joules, 0.85 * limit)
        box = {"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.8} if words else None
        axes.annotate(words.strip(), (place, height), ha="center", va="bottom", fontsize=9, bbox=box)
    axes.legend(loc="upper left")
    return fig


def _stack(axes: Axes, names: pd.Series | pd.Index, parts: pd.DataFrame) -> None:
    bottom = np.zeros(len(parts))
    for part, colour in zip(parts.columns, COLOURS, strict=False):
        axes.bar(names, parts[part], bottom=bottom, color=colour, label=part)
        bottom = bottom + parts[part].to_numpy()


def cell_explorer(cell: Scenario, seed: int) -> ipywidgets.VBox:
    """Sliders for deadline, radius, number of devices and sigma, with the result of `one_round` for such a cell."""

    def draw(deadline_s: float, radius_km: float, devices: int, capacitance: float) -> tuple[Figure, str]:
        place = replace(cell, deadline_s=deadline_s, radius_km=radius_km, devices=devices, capacitance=capacitance)
        frame, answer = one_round(place, seed)
        title = f"{devices} devices, {radius_km:g} km, {deadline_s:g} s, sigma {capacitance:.2g}"
        return scheme_bars(frame, title), answer

    return sliders.explorer(
        draw,
        deadline_s=ipywidgets.FloatSlider(cell.deadline_s, min=20, max=60, step=1, description="deadline, s"),
        radius_km=ipywidgets.FloatSlider(cell.radius_km, min=0.05, max=3, step=0.05, description="radius, km"),
        devices=ipywidgets.IntSlider(cell.devices, min=2, max=200, description="devices"),
        capacitance=ipywidgets.FloatLogSlider(cell.capacitance, min=-31, max=-26, step=0.1, description="sigma"),
    )
