"""The charts of the page, each with its alt text."""

import base64
import io

import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.bench import growth
from fedlib.bench.contestants import CONTESTANTS
from fedlib.bench.summary import Spread

COLOURS = dict(zip(CONTESTANTS, seaborn.color_palette("colorblind", len(CONTESTANTS)), strict=True))
DPI = 110


def number(value: float) -> str:
    """Three digits are enough: 5.21, 52.1, 521, 5,210."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def encoded(figure: Figure) -> str:
    """The figure as a data URL."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=DPI, bbox_inches="tight", metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(image.getvalue()).decode()


def bars(measured: dict[str, dict[str, Spread]]) -> tuple[str, str]:
    """Milliseconds per round, one panel per workload: picture and alt text."""
    heights = [max(1, len(spreads)) for spreads in measured.values()]
    figure = Figure(figsize=(9, 0.5 * sum(heights) + 0.75 * len(heights)), layout="constrained")
    panels = figure.subplots(len(measured), 1, squeeze=False, height_ratios=[height + 0.8 for height in heights])[:, 0]
    for panel, (workload, spreads) in zip(panels, measured.items(), strict=True):
        _bar_panel(panel, workload, spreads)
    panels[-1].set_xlabel("milliseconds per round (median; whiskers span the quartiles); shorter is better")
    return encoded(figure), "Bar charts of milliseconds per round. " + " ".join(
        f"{workload}: "
        + ", ".join(f"{CONTESTANTS[name].label} {number(spread.median)}" for name, spread in spreads.items())
        + "."
        for workload, spreads in measured.items()
    )


def _bar_panel(panel: Axes, workload: str, spreads: dict[str, Spread]) -> None:
    for place, (name, spread) in enumerate(spreads.items()):
        whiskers = [[spread.median - spread.first], [spread.third - spread.median]]
        panel.barh(
            place, spread.median, xerr=whiskers, color=COLOURS[name], error_kw={"linewidth": 1.2, "ecolor": "0.25"}
        )
        panel.annotate(number(spread.median), (spread.third, place), (6, 0), textcoords="offset points", va="center")
    panel.set_yticks(range(len(spreads)), [CONTESTANTS[name].label for name in spreads])
    panel.set_title(workload, loc="left", fontweight="bold")
    panel.margins(x=0.12)
    panel.invert_yaxis()
    panel.spines[["top", "right"]].set_visible(False)


def growth_lines(studies: dict[str, dict]) -> tuple[str, str]:
    """Time against clients and against participants, on logarithmic axes: picture and alt text."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    sentences = []
    panels = figure.subplots(1, 2, sharey=True)  # one scale, so that flat looks flat
    for panel, (kind, label) in zip(panels, (("clients", "clients"), ("cohort", "participants")), strict=True):
        for (name, study), colour in zip(studies.items(), seaborn.color_palette("colorblind"), strict=False):
            points = growth.series(study["ms"], kind)
            if len(points) > 1:
                slope = growth.slope(points)
                panel.loglog(
                    list(points), list(points.values()), "o-", color=colour, label=f"{name}, slope {slope:.2f}"
                )
                sentences.append(
                    f"{name} against {label}: "
                    + ", ".join(f"{number(ms)} ms at {size:,}" for size, ms in points.items())
                )
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
        if panel.lines:
            panel.legend(frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("milliseconds per round")
    return encoded(figure), "Line charts of the engine's time per round. " + "; ".join(sentences) + "."
