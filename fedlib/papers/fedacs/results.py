"""Section VII-A's measures: terminal accuracy, relative improvement, rounds to a target, speed-up; who was chosen."""

import numpy as np
import pandas as pd

from fedlib.report import show

BASELINE = "baseline"


def summary(
    frame: pd.DataFrame, value: str, rows: str, columns: str, scale: float = 100, digits: int = 1
) -> pd.DataFrame:
    """`show.mean_sd`, but one seed has no spread to show, and what was not measured is a dash."""
    shown = show.mean_sd(frame, value, rows, columns, scale, digits)
    one_seed = len(frame["seed"].unique()) == 1
    return shown.map(lambda cell: _cell(cell, one_seed))


def _cell(cell: str, one_seed: bool) -> str:
    if not isinstance(cell, str) or cell.startswith("nan"):
        return "-"
    return cell.split(" ± ")[0] if one_seed else cell


def blank_baseline(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """The frame with `value` blank for the baseline, whose improvement and speed-up no run can change."""
    return frame.assign(**{value: frame[value].where(frame["method"] != BASELINE)})


def terminal(frame: pd.DataFrame, keys: list[str], last: int, columns: tuple[str, ...] = ("accuracy",)) -> pd.DataFrame:
    """One row per run: means over the measured rounds among its `last` rounds."""
    frame = frame[frame["round"] > frame["round"].max() - last]
    return frame.groupby([*keys, "seed"], sort=False)[list(columns)].mean().reset_index()


def losses_by_skew(ends: pd.DataFrame) -> pd.DataFrame:
    """Fig. 2: what each environment loses against iid clients of the same seed."""
    table = ends.pivot(index="seed", columns="environment", values="accuracy")
    change = table.drop(columns="iid").sub(table["iid"], axis=0)
    order = [name for name in ends["environment"].unique() if name != "iid"]
    return change[order].stack().rename("change").reset_index().assign(quantity="change")


def improvements(ends: pd.DataFrame) -> pd.DataFrame:
    """Relative improvement: the gain over the seed's baseline, as a share of what the environment costs the baseline.

    The cost is the mean over seeds, because one seed's may be close to zero. Where it is not positive there is nothing
    to recover, and the share is left blank.
    """
    baseline = ends[ends["method"] == BASELINE].pivot(index="seed", columns="environment", values="accuracy")
    lost = baseline["iid"].mean() - baseline.mean()
    rows = ends[ends["environment"] != "iid"].copy()
    baselines = [baseline.loc[row.seed, row.environment] for row in rows.itertuples()]
    gaps = rows["environment"].map(lost.where(lost > 0))
    rows["improvement"] = (rows["accuracy"] - baselines) / gaps
    ideal = ends[ends["environment"] == "iid"].assign(improvement=1.0)
    return pd.concat([ideal, rows], ignore_index=True)


def targets(ends: pd.DataFrame, printed: dict[str, float], share: float) -> dict[str, float]:
    """Accuracy to reach in each environment: the printed one, else this share of the baseline's terminal accuracy."""
    baseline = ends[ends["method"] == BASELINE].groupby("environment", sort=False)["accuracy"].mean()
    ours = {name: share * accuracy for name, accuracy in baseline.items() if name != "iid"}
    return ours | {name: printed[name] for name in ours if name in printed}


def rounds_to(frame: pd.DataFrame, goal: dict[str, float]) -> pd.DataFrame:
    """One row per run: the first measured round at or above the environment's target, blank if it is never reached.

    `at_least` then has one round more than the run had, and `reached` says so.
    """
    rows = []
    for (environment, method, seed), curve in frame.groupby(["environment", "method", "seed"], sort=False):
        if environment in goal:
            hit = curve.loc[curve["accuracy"] >= goal[environment], "round"]
            reached = float(hit.min()) if len(hit) else np.nan
            bound = {"at_least": reached if len(hit) else curve["round"].max() + 1.0, "reached": len(hit) > 0}
            rows.append({"environment": environment, "method": method, "seed": seed, "rounds": reached} | bound)
    return pd.DataFrame(rows)


def speedups(reached: pd.DataFrame) -> pd.DataFrame:
    """Rounds of the baseline over rounds of the method, seed by seed."""
    baseline = reached[reached["method"] == BASELINE].set_index(["environment", "seed"])["rounds"]
    baselines = [baseline.loc[row.environment, row.seed] for row in reached.itertuples()]
    return reached.assign(speedup=np.array(baselines) / reached["rounds"])


def observed_rewards(frame: pd.DataFrame, alphas: tuple[float, ...], group: int) -> pd.DataFrame:
    """Fig. 4, long: seed, round, alpha, client and reward of each observed client."""
    columns = [f"reward_{client}" for client in range(group * len(alphas))]
    long = frame[["seed", "round", *columns]].melt(["seed", "round"], var_name="client", value_name="reward")
    client = long["client"].str.removeprefix("reward_").astype(int)
    return long.assign(client=client, alpha=np.repeat(alphas, group)[client])


def reward_medians(rewards: pd.DataFrame) -> pd.DataFrame:
    """Median, least and greatest reward of each group, round by round."""
    grouped = rewards.groupby(["seed", "round", "alpha"])["reward"]
    return grouped.agg(median="median", low="min", high="max").reset_index()


def rank_correlations(rewards: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rho of Q = -reward against alpha over the observed clients, round by round."""
    rows = [
        {"seed": seed, "round": round, "rho": -clients["reward"].corr(clients["alpha"], method="spearman")}
        for (seed, round), clients in rewards.groupby(["seed", "round"])
    ]
    return pd.DataFrame(rows)


def tallies(frame: pd.DataFrame, keys: list[str], alphas: dict[int, np.ndarray]) -> pd.DataFrame:
    """Fig. 9: how often each client took part up to each measured round; `place` 1 has the lowest alpha."""
    columns = [f"times_{client}" for client in range(len(next(iter(alphas.values()))))]
    parts = []
    for seed, runs in frame.groupby("seed"):
        order = np.argsort(alphas[seed], kind="stable")
        long = runs.melt([*keys, "seed", "round"], columns, "client", "times")
        client = long["client"].str.removeprefix("times_").astype(int)
        place = pd.Series(np.argsort(order) + 1)
        parts.append(long.assign(client=client, alpha=alphas[seed][client], place=place.loc[client].to_numpy()))
    return pd.concat(parts, ignore_index=True)


def mean_alphas(tally: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Fig. 8: mean alpha of all who took part since the last measured round."""
    weighted = tally.assign(weighted=tally["times"] * tally["alpha"])
    sums = weighted.groupby([*keys, "seed", "round"], sort=False)[["times", "weighted"]].sum()
    steps = sums.groupby([*keys, "seed"], sort=False).diff().dropna()
    return (steps["weighted"] / steps["times"]).rename("alpha").reset_index()


def pool_shares(tally: pd.DataFrame, keys: list[str], clients: int) -> pd.DataFrame:
    """Share of participations that fell to the pool a tolerance wants: the lambda * N clients with the lowest alpha."""
    last = tally[tally["round"] == tally["round"].max()]
    inside = last["place"] <= np.rint(last["tolerance"] * clients)
    counted = last.assign(inside=last["times"].where(inside, 0.0))
    sums = counted.groupby([*keys, "seed"], sort=False)[["inside", "times"]].sum()
    return (sums["inside"] / sums["times"]).rename("share").reset_index()
