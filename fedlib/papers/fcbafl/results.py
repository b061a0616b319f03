"""The numbers of the FCBAFL notebooks, from the results of the experiments."""

from dataclasses import replace

import numpy as np
import pandas as pd

from fedlib.papers.fcbafl.experiments import (
    MEASURES,
    Curve,
    LearningSetting,
    best_scheme,
    curve_name,
    over_deadlines,
    over_devices,
)
from fedlib.runs.tuning import Sweep
from fedlib.wireless import Scenario

RUN = ["setting", "step", "curve", "batch", "seed"]  # the columns that identify a run of the learning


def setups(printed: LearningSetting, fedl: LearningSetting, fedl_lr: float) -> pd.DataFrame:
    """The set-up of the learning: what the paper prints, what FEDL's authors released, and what is run here."""
    devices, samples = printed.federation["clients"], printed.federation["samples"] or 60_000
    per_round = round(fedl.local["participation"] * devices)
    alpha, l2, steps = printed.federation["alpha"], printed.federation["l2"], printed.local["steps"]
    rows = {
        "images": ("MNIST", "MNIST, 70,000", f"MNIST, {samples:,}", f"MNIST, {samples:,}"),
        "split over devices": (
            "unbalanced, non-iid",
            "3 digits each, log-normal amounts",
            f"Dir({alpha:g}) per digit",
            "3 digits each, log-normal amounts",
        ),
        "training and test": ("75% and 25%", *["75% and 25% of each device"] * 3),
        "pixels": ("not printed", "standardised", "shares of one", "standardised"),
        "model": ("payload of softmax regression", *["softmax regression"] * 3),
        "l2 term": ("asked for, not printed", "none", f"{l2:g}", "none"),
        "devices per round": (f"all {devices}", "10 of 100", f"all {devices}", f"{per_round} of {devices}"),
        "local work": ("20 iterations", "20 epochs", f"{steps} iterations", f"{fedl.local['epochs']} epochs"),
        "eta, minibatches": (
            "two, not printed",
            "0.2",
            *(_listed(setting, "minibatch") for setting in (printed, fedl)),
        ),
        "eta, full batches": (
            "0.2 and larger",
            "0.2, 2, 4",
            *(_listed(setting, "full") for setting in (printed, fedl)),
        ),
        "step size": ("not printed", "0.003 for all", "best of a grid; one for all", f"best of a grid; {fedl_lr:g}"),
        "rounds": ("500", "800", str(printed.rounds), str(fedl.rounds)),
    }
    columns = ["the paper", "FEDL's code", "here, as printed", "here, as FEDL"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("set-up")


def _listed(setting: LearningSetting, batches: str) -> str:
    return ", ".join(f"{eta:g}" for eta in setting.etas[batches])


def step_sizes(settings: dict[str, dict[str, dict[int | str, list[Curve]]]]) -> pd.DataFrame:
    """Every curve's step size by setting, rule and batch."""
    rows = [
        {"setting": setting, "step": step, "curve": curve_name(curve.eta), "batch": str(batch), "lr": curve.lr}
        for setting, rules in settings.items()
        for step, by_batch in rules.items()
        for batch, curves in by_batch.items()
        for curve in curves
    ]
    table = pd.DataFrame(rows).pivot(index=["setting", "step", "curve"], columns="batch", values="lr")
    return table.astype(object).fillna("")


def finals(settings: dict[str, dict[int | str, Sweep]]) -> pd.DataFrame:
    """The finals of the tuning, for reading: the step sizes of every curve in the order of their tuning runs, each with
    its accuracies in percent when tuned and in the final, averaged over the tuning seeds."""
    rows = {}
    for setting, by_batch in settings.items():
        for batch, sweep in by_batch.items():
            tuned = sweep.means().set_index(["method", "lr"])["score"]
            for curve, scores in sweep.finals.groupby("method", sort=False) if len(sweep.finals) else ():
                ends = scores.groupby("lr", sort=False)["score"].mean()
                met = [f"{lr:g}: {100 * tuned[curve, lr]:.2f}, {100 * end:.2f}" for lr, end in ends.items()]
                places = {f"place {place}": text for place, text in enumerate(met, start=1)}
                won = list(ends.index).index(sweep.best[str(curve)]["lr"]) + 1
                rows[setting, str(batch), str(curve)] = places | {"won by place": won}
    index = pd.MultiIndex.from_tuples(list(rows), names=["setting", "batch", "curve"])
    return pd.DataFrame(list(rows.values()), index).fillna("")


def theta_after(frame: pd.DataFrame, rounds: list[int]) -> pd.DataFrame:
    """The local accuracy theta of (7) after some rounds: one row per curve, batch, round and seed."""
    chosen = frame[frame["eta"].notna() & frame["round"].isin(rounds)]
    return chosen[["curve", "eta", "batch", "lr", "round", "seed", "theta", "theta_max"]].reset_index(drop=True)


def energy_to_target(ends: pd.DataFrame, joules: pd.DataFrame) -> pd.DataFrame:
    """The energy each run needs to reach the target: its rounds times the joules of a round of its method, averaged
    over channel draws. One row per run and way of counting the work (`reading`)."""
    per_round = joules.groupby(["setting", "reading", "method", "batch"], as_index=False)["energy_j"].mean()
    methods = ends["curve"].str.split(",").str[0]
    runs = ends.assign(method=methods)[[*RUN, "method", "rounds_to_target", "reached"]]
    costs = runs.merge(per_round.rename(columns={"energy_j": "round_j"}), on=["setting", "method", "batch"])
    return costs.assign(energy_kj=costs["rounds_to_target"] * costs["round_j"] / 1000)


def figures(
    scenario: Scenario, deadlines_s: list[float], counts: list[int], draws: int, seed: int
) -> dict[str, pd.DataFrame]:
    """The data of Figs. 6 to 8 in one setting: "fig6", "fig7", "fig8" with their `savings`."""
    return {
        "fig6": savings(over_deadlines(scenario, deadlines_s, draws, seed), "deadline_s"),
        "fig7": savings(over_devices("frequency", scenario, counts, draws, seed), "devices"),
        "fig8": savings(over_devices("allocation", scenario, counts, draws, seed), "devices"),
    }


def savings(sweep: pd.DataFrame, axis: str) -> pd.DataFrame:
    """One row per draw, scheme and point with the saving of OF or OA on the scheme, and one for the whole sweep.

    `sweep` has the costs by scheme, `axis` and draw, as `experiments.over_deadlines` returns them; all rows stay.
    Rows without a plan have blank energies. `ahead` is 1 if OF or OA needs less energy than the scheme or is the only
    one with a plan, and blank if neither has one; `in_time` says whether no device was late; differences of
    `log_energy` are logarithms of ratios of energies.
    """
    points = sweep.assign(sweep="point")
    whole = sweep.groupby(["scheme", "seed"], sort=False)[MEASURES].sum(min_count=sweep[axis].nunique())
    frame = pd.concat([points, whole.reset_index().assign(sweep="all", **{axis: np.nan})], ignore_index=True)
    frame["energy_j"] = frame["sending_j"] + frame["computing_j"]
    place = ["sweep", axis, "seed"]
    least = frame[["scheme", *place, "energy_j"]].rename(columns={"scheme": "best", "energy_j": "least"})
    frame = frame.assign(best=frame["scheme"].map(best_scheme)).merge(least, "left", ["best", *place])
    planned = frame["energy_j"].notna() | frame["least"].notna()
    return frame.assign(
        saving=1 - frame["least"] / frame["energy_j"],
        log_energy=np.log(frame["energy_j"]),
        ahead=(frame["least"].fillna(np.inf) < frame["energy_j"].fillna(np.inf)).astype(float).where(planned),
        in_time=frame["late"] == 0,
    ).drop(columns=["best", "least"])


def late_rounds(frame: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Number of draws in which some device is late or the scheme has no plan: one row per scheme, one column per point
    of the sweep."""
    points = frame[frame["sweep"] == "point"]
    late = (~points["in_time"]).groupby([points["scheme"], _written(points[axis])], sort=False).sum()
    return late.unstack(sort=False).astype(int)


def ahead(frame: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Number of draws in which OF or OA is ahead of the scheme, of those in which one of the two has a plan."""
    rivals = frame[(frame["sweep"] == "point") & (frame["scheme"] != frame["scheme"].map(best_scheme))]
    places = [rivals["scheme"], _written(rivals[axis])]
    counts = rivals.groupby(places, sort=False)["ahead"].agg(won="sum", draws="count")
    return pd.Series([f"{row.won:.0f} of {row.draws}" for row in counts.itertuples()], counts.index).unstack(sort=False)


def _written(points: pd.Series) -> pd.Series:
    """The points of a sweep as columns are called: 20 devices, 26.5 seconds."""
    return points.astype(int) if points.name == "devices" else points.map("{:g}".format)


def closest_cell(scenario: Scenario, fitted: pd.DataFrame) -> Scenario:
    """The setting that `experiments.closest` found."""
    point = {name: float(fitted[name].iloc[0]) for name in ("capacitance", "radius_km", "deadline_s")}
    return replace(scenario, **point)


def beside_print(searches: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Printed savings beside those at the point that each search found, and the point; for reading."""
    rows = {}
    for search, fitted in searches.items():
        for row in fitted.itertuples():
            rows[search, f"Fig. {row.figure[-1]}: {row.scheme}"] = {
                "printed": f"{row.printed:.1%}",
                "ours": f"{row.saving:.1%}",
                "sigma": f"{row.capacitance:.1e}",
                "radius, km": f"{row.radius_km:.2f}",
                "deadline, s": f"{row.deadline_s:.1f}",
                "rounds in time": f"{row.in_time:.0%}",
                "distance, points": f"{100 * row.distance:.2f}",
            }
    return pd.DataFrame(rows).T.rename_axis(["search", "saving"])


def map_spans(grid: pd.DataFrame, printed: dict[tuple[str, str], float]) -> pd.DataFrame:
    """For each printed saving, the range of its map."""
    rows = {}
    for (figure, scheme), value in printed.items():
        cells = grid[(grid["figure"] == figure) & (grid["scheme"] == scheme)]
        span = {"printed": value, "lowest": cells["saving"].min(), "highest": cells["saving"].max()}
        shares = {key: f"{share:.1%}" for key, share in span.items()}
        rows[f"Fig. {figure[-1]}: {scheme}"] = shares | {"most draws without a plan": f"{cells['no_plan'].max():.0%}"}
    return pd.DataFrame(rows).T


def fixed_frequencies(gaps: pd.DataFrame) -> pd.DataFrame:
    """How much depends on the frequency at which OA is solved, in the largest cell: one row per frequency and deadline.

    The gap to the joint optimum is given over the draws with a plan at this frequency, and over those with a plan at
    every frequency.
    """
    largest = gaps[(gaps["devices"] == gaps["devices"].max()) & gaps["joint_j"].notna()]
    everywhere = largest.groupby(["deadline_s", "seed"])["gap"].transform(lambda gap: gap.notna().all())
    by_place = ["fixed_ghz", "deadline_s"]
    means = {
        "draws": largest.groupby(by_place)["seed"].nunique(),
        "no_plan": largest.groupby(by_place)["gap"].agg(lambda gap: gap.isna().mean()),
        "gap": largest.groupby(by_place)["gap"].mean(),
        "gap_same_draws": largest[everywhere].groupby(by_place)["gap"].mean(),
    }
    return pd.DataFrame(means).reset_index()


def per_round(costs: pd.DataFrame) -> pd.DataFrame:
    """Mean joules of a round by reading, batch and method, over the draws in which both methods are in time, and the
    energy relative to FedAvg's."""
    place = ["reading", "batch", "method"]
    both = costs.groupby(["reading", "batch", "seed"])["energy_j"].transform(lambda joules: joules.notna().all())
    kept = costs[both].groupby(place, sort=False)
    table = kept[["sending_j", "computing_j", "energy_j"]].mean().assign(draws=kept["seed"].nunique()).reset_index()
    table = table.sort_values(place[:2], kind="stable", ignore_index=True)
    fedavg = table["energy_j"].where(table["method"] == "FedAvg").groupby([table["reading"], table["batch"]])
    return table.assign(of_fedavg=table["energy_j"] / fedavg.transform("max"))
