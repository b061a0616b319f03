"""Section VII-A's measures: terminal accuracy, relative improvement, rounds to a target, speed-up; who was chosen."""

import numpy as np
import pandas as pd

from fedlib.judging import curves
from fedlib.judging.statistics import beyond_guessing
from fedlib.report import show

BASELINE = "baseline"
GUESSING = 0.1  # the mean accuracy of guessing one of CIFAR-10's classes


def summary(
    frame: pd.DataFrame, value: str, rows: str | list[str], columns: str, scale: float = 100, digits: int = 1
) -> pd.DataFrame:
    """`show.mean_sd` with the median, which the paper prints, in brackets: "61.2 ± 0.4 (61.3)".

    No median for fewer than three seeds, no spread for one seed; a dash for what was not measured.
    """
    shown = show.mean_sd(frame, value, rows, columns, scale, digits)
    keys = [*([rows] if isinstance(rows, str) else rows), columns]
    medians = (frame.groupby(keys, sort=False)[value].median() * scale).unstack(sort=False)
    seeds = frame.groupby(keys, sort=False)["seed"].nunique().unstack(sort=False)
    return pd.DataFrame(
        {
            column: [_cell(*cell, digits) for cell in zip(shown[column], medians[column], seeds[column], strict=True)]
            for column in shown
        },
        index=shown.index,
    )


def _cell(mean_sd: str, median: float, seeds: float, digits: int) -> str:
    if not isinstance(mean_sd, str) or mean_sd.startswith("nan"):
        return "-"
    if seeds == 1:
        return mean_sd.split(" ± ")[0]
    return mean_sd if seeds < 3 else f"{mean_sd} ({median:.{digits}f})"


def blank_baseline(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """The frame with `value` blank for the baseline, whose improvement and speed-up are the same by definition."""
    return frame.assign(**{value: frame[value].where(frame["method"] != BASELINE)})


def terminal(frame: pd.DataFrame, keys: list[str], last: int, columns: tuple[str, ...] = ("accuracy",)) -> pd.DataFrame:
    """One row per run: means over the measured rounds among its `last` rounds."""
    frame = frame[frame["round"] > frame["round"].max() - last]
    return frame.groupby([*keys, "seed"], sort=False)[list(columns)].mean().reset_index()


def broken_down(frame: pd.DataFrame, test_images: int) -> pd.DataFrame:
    """The runs that end at the level of guessing: their best and their last accuracy, and their last loss."""
    keys = ["environment", "method", "seed"]
    best = frame.groupby(keys, sort=False)["accuracy"].max().rename("best").reset_index()
    last = frame.sort_values("round").groupby(keys).tail(1)
    ends = best.merge(last[[*keys, "accuracy", "loss"]], on=keys)
    return ends[ends["accuracy"] <= beyond_guessing(GUESSING, test_images)].reset_index(drop=True)


def farthest(moves: pd.DataFrame, most: int) -> pd.DataFrame:
    """For reading: of each broken run the clients that move the farthest, by loop."""
    keys = ["environment", "method", "seed", "round", "client", "alpha"]
    table = moves.pivot(index=keys, columns="loop", values="moved")[moves["loop"].unique()]
    by_run = table.assign(far=table.max(axis=1)).sort_values("far", ascending=False).groupby(keys[:3], sort=False)
    return by_run.head(most).drop(columns="far")


def breakdown_counts(frame: pd.DataFrame, test_images: int) -> pd.DataFrame:
    """For reading: how many runs of each method there are, and how many of them end at the level of guessing."""
    runs = frame.groupby("method", sort=False)["seed"].nunique()
    lost = broken_down(frame, test_images).groupby("method")["seed"].nunique()
    return pd.DataFrame({"runs": runs, "at the level of guessing": lost.reindex(runs.index, fill_value=0)})


def losses_by_skew(ends: pd.DataFrame, value: str = "accuracy") -> pd.DataFrame:
    """Fig. 2: what each environment loses against iid clients of the same seed."""
    table = ends.pivot(index="seed", columns="environment", values=value)
    change = table.drop(columns="iid").sub(table["iid"], axis=0)
    order = [name for name in ends["environment"].unique() if name != "iid"]
    return change[order].stack().rename("change").reset_index().assign(quantity="change")


def improvements(ends: pd.DataFrame) -> pd.DataFrame:
    """Relative improvement: the gain over the seed's baseline, as a share of what the environment costs the baseline.

    The cost is the mean over seeds, because that of one seed may be close to zero. If it is not positive, there is
    nothing to recover, and the share is left blank. `beyond_half` is what claims about the share are judged by: the
    gain minus half of the same seed's cost, in accuracy, with no mean that counts as exact.
    """
    baseline = ends[ends["method"] == BASELINE].pivot(index="seed", columns="environment", values="accuracy")
    rows = ends[ends["environment"] != "iid"].copy()
    rows["gain"] = rows["accuracy"] - [baseline.loc[row.seed, row.environment] for row in rows.itertuples()]
    rows["cost"] = [
        baseline.loc[row.seed, "iid"] - baseline.loc[row.seed, row.environment] for row in rows.itertuples()
    ]
    lost = rows["environment"].map(baseline["iid"].mean() - baseline.mean())
    rows["improvement"] = (rows["gain"] / lost).where(lost > 0)
    rows["beyond_half"] = (rows["gain"] - rows["cost"] / 2).where(lost > 0)
    ideal = ends[ends["environment"] == "iid"].assign(improvement=1.0)
    return pd.concat([ideal, rows], ignore_index=True)


def shares_above(rows: pd.DataFrame, method: str, least: str) -> pd.DataFrame:
    """How much larger a share of the cost a method recovers than in the environment `least`, by seed and environment.

    gain / cost > gain' / cost' is judged as gain * cost' - gain' * cost > 0, seed by seed. Both mean costs divide it,
    which changes neither its sign nor the test, so that it reads as a difference of shares. Blank where an environment
    costs nothing, or where the method gains nothing: the same loss is a smaller share of a larger cost.
    """
    rows = rows[rows["method"] == method].set_index(["environment", "seed"])
    there, parts = rows.loc[least], []
    for environment in rows.index.unique("environment").drop(least):
        here = rows.loc[environment]
        costs, gains = ((here[name].mean(), there[name].mean()) for name in ("cost", "gain"))
        scale = costs[0] * costs[1] if min(*costs, *gains) > 0 else np.nan
        ahead = (here["gain"] * there["cost"] - there["gain"] * here["cost"]) / scale
        parts.append(ahead.rename("ahead").reset_index().assign(environment=environment))
    return pd.concat(parts, ignore_index=True).assign(method=method)


def halfway(trials: pd.DataFrame, last: int) -> dict[str, float]:
    """The target of each environment: what its trial has at half of its rounds, rounded down to a whole percent.

    That is the mean of the measured rounds among the `last` around the middle.
    """
    half = trials["round"].max() / 2
    middle = trials[trials["round"].between(half - last / 2, half + last / 2) & (trials["round"] > 0)]
    return _whole_percents(middle.groupby("environment", sort=False)["accuracy"].mean())


def near_the_end(trials: pd.DataFrame, last: int) -> dict[str, float]:
    """The late target of each environment: one point below the end of its trial, rounded down to a whole percent."""
    ends = terminal(trials, ["environment"], last).groupby("environment", sort=False)["accuracy"].mean()
    return _whole_percents(ends - 0.01)


def _whole_percents(accuracies: pd.Series) -> dict[str, float]:
    return {str(name): float(np.floor(round(100 * accuracy, 6))) / 100 for name, accuracy in accuracies.items()}


def rounds_to(frame: pd.DataFrame, goal: dict[str, float]) -> pd.DataFrame:
    """One row per run: the first measured round at or above the environment's target, blank if it is never reached.

    `at_least` then has one round more than the run had, and `reached` says so. The starting model does not count.
    """
    rows = []
    for (environment, method, seed), curve in frame.groupby(["environment", "method", "seed"], sort=False):
        if environment in goal:
            rounds, reached = curves.rounds_to(curve[curve["round"] > 0], goal[environment])
            names = {"environment": environment, "method": method, "seed": seed}
            arrival = {"rounds": rounds if reached else np.nan, "at_least": float(rounds), "reached": reached}
            rows.append(names | arrival)
    return pd.DataFrame(rows)


def speedups(reached: pd.DataFrame) -> pd.DataFrame:
    """Rounds of the baseline over rounds of the method, seed by seed, blank if neither reached the target.

    A run that never reached it counts with one round more than it had. The ratio is then a bound: `bound` says "at
    most" (the method did not reach it) or "at least" (the baseline did not).
    """
    baseline = reached[reached["method"] == BASELINE].set_index(["environment", "seed"])
    theirs = baseline.reindex(pd.MultiIndex.from_frame(reached[["environment", "seed"]]))
    arrived, baseline_arrived = reached["reached"].to_numpy(), theirs["reached"].to_numpy(dtype=bool)
    ratio = theirs["at_least"].to_numpy() / reached["at_least"].to_numpy()
    bound = np.where(arrived & baseline_arrived, "", np.where(baseline_arrived, "at most", "at least"))
    return reached.assign(speedup=np.where(arrived | baseline_arrived, ratio, np.nan), bound=bound)


def unreached(reached: pd.DataFrame) -> pd.DataFrame:
    """How many runs of each method never reached the target of their environment."""
    short = reached.assign(short=~reached["reached"]).groupby(["method", "environment"], sort=False)["short"]
    return short.sum().astype(int).unstack(sort=False)


def beside_accuracy(ends: pd.DataFrame, alphas: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
    """For reading, of one environment: what each method recovers, how soon it arrives, whom it chose in the end (mean
    alpha of the last participants), and what CMFL keeps."""
    raced = ends.dropna(subset="at_least").astype({"reached": bool})
    columns = {
        "recovered, %": summary(ends.dropna(subset="gain"), "improvement", "method", "environment", digits=0),
        "rounds to the target": summary(raced, "at_least", "method", "environment", scale=1, digits=0),
        "never arrived": unreached(raced),
        "alpha of the last participants": summary(alphas, "alpha", "method", "environment", scale=1, digits=2),
        "updates kept": kept.reset_index("environment").groupby("method")["updates kept"].mean().round(2).to_frame(),
    }
    parts = {name: table.iloc[:, 0] for name, table in columns.items()}
    return pd.concat(parts, axis=1).reindex(raced["method"].unique()).fillna("-")


def shares_kept(agree: pd.DataFrame, threshold: float, scaled: float) -> pd.DataFrame:
    """CMFL's calibration: relevance of updates, and the share that each threshold keeps, by the data behind them."""
    grouped = agree.groupby("data", sort=False)["relevance"]
    table = grouped.agg(updates="count", least="min", mean="mean", greatest="max")
    for value in dict.fromkeys((threshold, scaled)):
        table[f"kept at {value:g}"] = grouped.agg(lambda relevance, value=value: (relevance >= value).mean())
    return table.round(3)


def updates_kept(frame: pd.DataFrame, kappa: int) -> pd.DataFrame:
    """CMFL: means over the measured rounds of its relevance and of the updates kept, and the models sent per round.

    In its own paper clients do not send what they drop; as released, the server needs all updates for their mean.
    """
    cmfl = frame[frame["method"].str.startswith("CMFL")]
    table = cmfl.groupby(["environment", "method"], sort=False)[["relevance", "kept"]].mean()
    saving = table.index.get_level_values("method") == "CMFL, own paper"
    sent = kappa * (1 + table["kept"].where(saving, 1.0))
    names = {"relevance": "agreeing signs", "kept": "updates kept"}
    return table.rename(columns=names).assign(**{"models sent per round": sent})


def declines(frame: pd.DataFrame, last: int) -> pd.DataFrame:
    """One row per run: mean accuracy between 60 and 80% of the rounds minus the terminal one; positive is a decline.

    `beyond` is that less the baseline's of the same environment and seed, which rises as the rate is annealed.
    """
    rounds = frame["round"].max()
    late = frame[frame["round"].between(0.6 * rounds, 0.8 * rounds)]
    keys = ["environment", "method", "seed"]
    before = late.groupby(keys, sort=False)["accuracy"].mean()
    ends = terminal(frame, ["environment", "method"], last).set_index(keys)["accuracy"]
    decline = (before - ends).rename("decline")
    baseline = decline.xs(BASELINE, level="method")
    return (
        decline.to_frame()
        .assign(beyond=decline - baseline.reindex(decline.droplevel("method").index).to_numpy())
        .reset_index()
    )


def early(frame: pd.DataFrame, keys: list[str], first: int) -> pd.DataFrame:
    """One row per run: mean accuracy over its first measured rounds, without the initial model."""
    rows = frame[frame["round"].between(1, first)]
    return rows.groupby([*keys, "seed"], sort=False)["accuracy"].mean().rename("early").reset_index()


AT_SHARE, AT_ROUND = "after a fifth of the run", "at round 200"  # the printed stop, read as a share and as a round


def by_stop(ends: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """Fig. 10: `stopped` says when a run stopped, by either reading of "round 200 of 1000"; "never" for FedACS.

    With 1000 rounds one run is both.
    """
    parts = [ends[ends["variant"] == "FedACS"].assign(stopped="never")]
    parts += [
        ends[ends["stop"] == stop].assign(stopped=name) for name, stop in ((AT_SHARE, rounds // 5), (AT_ROUND, 200))
    ]
    return pd.concat(parts, ignore_index=True)


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


def drifts(groups: pd.DataFrame) -> pd.DataFrame:
    """By seed and group: how far its median reward moves from the first to the last quarter of the rounds, relative to
    the first."""
    quarter = groups["round"].max() / 4
    parts = {
        "first": groups[groups["round"].between(1, quarter)],
        "last": groups[groups["round"] > groups["round"].max() - quarter],
    }
    means = pd.DataFrame({name: part.groupby(["seed", "alpha"])["median"].mean() for name, part in parts.items()})
    return ((means["last"] - means["first"]).abs() / means["first"].abs()).rename("drift").reset_index()


SIGNALS = {
    "estimate": "Q, last layer (FedACS)",
    "estimate_all": "Q, whole network",
    "loss_before": "loss before training",
    "loss_training": "loss of local training (Oort)",
    "relevance": "agreeing signs (CMFL)",
}


def signals(asked: pd.DataFrame, alphas: dict[int, np.ndarray]) -> pd.DataFrame:
    """Spearman's rho between each signal that clients could report and their alpha, by seed and model."""
    rows = []
    for (seed, model), clients in asked.groupby(["seed", "model"], sort=False):
        truth = pd.Series(alphas[seed][clients["client"]], clients.index)
        for column, name in SIGNALS.items():
            rho = clients[column].corr(truth, method="spearman")
            rows.append({"seed": seed, "model": model, "signal": name, "rho": rho})
    return pd.DataFrame(rows)


def last_layer_lead(rhos: pd.DataFrame) -> pd.DataFrame:
    """By seed and model: rank correlation of Q from the last layer minus that of Q from the whole network."""
    table = rhos.pivot(index=["model", "seed"], columns="signal", values="rho")
    lead = table[SIGNALS["estimate"]] - table[SIGNALS["estimate_all"]]
    return lead.rename("lead").reset_index()


def inverted_pairs(asked: pd.DataFrame, alphas: dict[int, np.ndarray]) -> pd.DataFrame:
    """By seed and model: the share of pairs of clients that Q and alpha order differently."""
    rows = []
    for (seed, model), clients in asked.groupby(["seed", "model"], sort=False):
        estimates, truth = clients["estimate"].to_numpy(), alphas[seed][clients["client"]]
        first, second = np.triu_indices(len(truth), 1)
        apart = truth[first] != truth[second]
        wrong = (estimates[first] > estimates[second]) != (truth[first] > truth[second])
        rows.append({"seed": seed, "model": model, "share": float(wrong[apart].mean())})
    return pd.DataFrame(rows)


def shares_read_off(asked: pd.DataFrame, counts: dict[int, np.ndarray], lr: float) -> pd.DataFrame:
    """How well a server can infer class shares from the bias entries of the insights: errors by seed and model.

    A bias's gradient is the client's mean prediction minus its class share. The server knows neither; it assumes that
    the mean prediction is the same for all clients, and that classes are equally frequent in all data together.
    """
    rows = []
    for (seed, model), clients in asked.groupby(["seed", "model"], sort=False):
        bias = clients.filter(like="bias_").to_numpy() / lr
        guess = bias.mean(0) + 1 / bias.shape[1] - bias
        truth = counts[seed][clients["client"]] / counts[seed][clients["client"]].sum(1, keepdims=True)
        apart = np.abs(guess - truth)
        rows.append({"seed": seed, "model": model, "largest error": apart.max(), "mean error": apart.mean()})
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


def around_200_and_last(alphas: pd.DataFrame, keys: list[str], last: int) -> pd.DataFrame:
    """Mean alpha of the participants around round 200 and in the last rounds, by seed."""
    parts = {
        "around round 200": alphas["round"].between(161, 240),
        "last rounds": alphas["round"] > alphas["round"].max() - last,
    }
    means = [alphas[rows].groupby([*keys, "seed"], sort=False)["alpha"].mean().reset_index() for rows in parts.values()]
    return pd.concat([frame.assign(part=part) for part, frame in zip(parts, means, strict=True)], ignore_index=True)


def chance_of_even_draw(clients: int, kappa: int, some: int, rounds: int) -> float:
    """Standard deviation of some clients' share of all participations, if kappa of all are drawn evenly per round."""
    share = some / clients
    return float(np.sqrt(share * (1 - share) * (clients - kappa) / (clients - 1) / (kappa * rounds)))


def poisoners_shares(frame: pd.DataFrame, poisoners: dict[int, np.ndarray]) -> pd.DataFrame:
    """Participations so far, of all and of these clients, by seed; `share` is theirs of all so far."""
    everyone = frame.filter(like="times_")
    theirs = [
        row[[f"times_{client}" for client in poisoners[seed]]].sum()
        for seed, (_, row) in zip(frame["seed"], everyone.iterrows(), strict=True)
    ]
    kept = frame[["selector", "condition", "seed", "round", "accuracy"]].assign(theirs=theirs, all=everyone.sum(axis=1))
    return kept.assign(share=kept["theirs"] / kept["all"].where(kept["all"] > 0))


def late_shares(shares: pd.DataFrame) -> pd.DataFrame:
    """One row per run: these clients' share of the participations in the second half of the rounds."""
    keys, half = ["selector", "condition", "seed"], shares["round"].max() / 2
    end = shares.groupby(keys, sort=False).last()
    middle = shares[shares["round"] <= half].groupby(keys, sort=False).last()
    late = (end["theirs"] - middle["theirs"]) / (end["all"] - middle["all"])
    return end[["accuracy"]].assign(share=late).reset_index()


def rounds_to_meet_all(tally: pd.DataFrame, keys: list[str]) -> pd.Series:
    """The first measured round by which every client has taken part, the latest of all seeds; blank if never."""
    least = tally.groupby([*keys, "seed", "round"], sort=False)["times"].min().reset_index()
    met = least[least["times"] > 0].groupby([*keys, "seed"], sort=False)["round"].min()
    everyone = least.groupby([*keys, "seed"], sort=False)["round"].max().index
    return met.reindex(everyone).groupby(keys, sort=False).agg(lambda rounds: rounds.max(skipna=False))


def busiest(tally: pd.DataFrame, keys: list[str]) -> pd.Series:
    """The share of all rounds in which the most frequent client took part, mean over seeds."""
    last = tally[tally["round"] == tally["round"].max()]
    most = last.groupby([*keys, "seed"], sort=False)["times"].max() / last["round"].max()
    return most.groupby(keys, sort=False).mean()


def pool_times(tally: pd.DataFrame, keys: list[str], clients: int) -> pd.DataFrame:
    """How often a client took part on average, inside and outside the desired pool: the lambda * N clients with the
    lowest alpha."""
    last = tally[tally["round"] == tally["round"].max()]
    inside = last["place"] <= np.rint(last["tolerance"] * clients)
    placed = last.assign(pool=np.where(inside, "inside", "outside"))
    return placed.groupby([*keys, "seed", "pool"], sort=False)["times"].mean().reset_index()
