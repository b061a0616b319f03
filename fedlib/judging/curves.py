"""What curves say: where they end, when they reach a target, how rough they are; and panels of them as one figure."""

import pandas as pd
import seaborn
from matplotlib.figure import Figure


def final(frame: pd.DataFrame, keys: list[str], last: int, target: float, value: str = "accuracy") -> pd.DataFrame:
    """One row a run: each score as the mean of its `last` measured rounds, rounds to the target, roughness of `value`.

    A run that never reaches the target counts as one round more than it had.
    """
    scores = [column for column in frame.select_dtypes("number").columns if column not in (*keys, "seed", "round")]
    rows = []
    for labels, run in frame.groupby([*keys, "seed"], sort=False):
        run = run.sort_values("round")
        hit = run.loc[run[value] >= target, "round"]
        row = dict(zip([*keys, "seed"], labels, strict=True)) | run[scores].tail(last).mean().to_dict()
        row["rounds_to_target"] = int(hit.iloc[0]) if len(hit) else int(run["round"].iloc[-1]) + 1
        row["roughness"] = float(run[value].tail(len(run) // 2).diff().std())
        rows.append(row)
    return pd.DataFrame(rows)


def mean_curves(frame: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    """Mean and standard deviation over seeds for each measured round."""
    grouped = frame.groupby([*keys, "round"], sort=False)[value]
    return pd.DataFrame({"mean": grouped.mean(), "sd": grouped.std().fillna(0)}).reset_index()


def panels(
    frame: pd.DataFrame,
    value: str,
    ylabel: str,
    col: str,
    title: str,
    hue: str = "method",
    marks: dict | None = None,
    ticks: list[float] | None = None,
) -> Figure:
    """One panel a level of `col`, one line a level of `hue`, a band of one standard deviation over seeds.

    `marks` draws a dotted line at a printed value, one a level of `col`; `title` is a format such as "{}% of the devices".
    `ticks` asks for a logit axis with these ticks, which shows shares near one and far from it in one picture.
    """
    hues = list(frame[hue].unique())
    grid = seaborn.relplot(
        frame,
        x="round",
        y=value,
        hue=hue,
        style=hue,
        hue_order=hues,
        style_order=hues,
        col=col,
        kind="line",
        errorbar="sd",
        palette=seaborn.color_palette("colorblind", len(hues)),
        height=3.4,
        aspect=1.05,
        col_wrap=2,
        facet_kws={"sharey": True},
        linewidth=1.6,
    )
    grid.set_axis_labels("communication round", ylabel).set_titles("{col_name}")
    for level, axes in grid.axes_dict.items():
        axes.set_title(title.format(level))
        if marks and marks.get(level) is not None:
            axes.axhline(marks[level], color="0.25", linestyle=":", linewidth=1.2)
        if ticks:
            axes.set_yscale("logit")
            axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_ylim(ticks[0], 1 - (1 - ticks[-1]) / 1.5)
            axes.minorticks_off()
    return grid.figure
