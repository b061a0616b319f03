"""From curves to the numbers of the tables: one row per run and cell.

A comparison is shown in five currencies: rounds; epochs that a model makes in a row (a device's epoch is the unit);
models sent; models that the cloud sends and receives; and waiting time, epochs and transfers in a row.
"""

import numpy as np
import pandas as pd

from fedlib import algorithms
from fedlib.algorithms.algorithm import Algorithm
from fedlib.algorithms.fedsr import FedSR
from fedlib.algorithms.hierfavg import HierFAVG
from fedlib.algorithms.ring import Ring
from fedlib.judging import ledger, statistics, transfers
from fedlib.judging.curves import rounds_to
from fedlib.judging.statistics import estimate
from fedlib.papers.fedsr.experiments import (
    CANDIDATES,
    CHOSEN_INPUTS,
    DECENTRAL,
    EPOCHS,
    LITERAL,
    METHODS,
    ONE_EPOCH,
    RING_ONE_EPOCH,
    STAR,
    TARGETS,
    VARIANTS,
    base,
)

KEYS = ["data_set", "partition", "method", "seed"]
TEST_IMAGES = 2000  # the fewest that any scale tests on
CURRENCIES = ("rounds", "epochs in a row", "transfers", "load of the cloud", "waiting time")
WORK = "epochs per device"  # sample gradients, in passes over a device's data
UNKNOWN = "an unknown length"  # of transfers, where runs did not arrive
NEAR_BEST = 0.01  # of held-out accuracy: inputs this close to the best are as good


def ends(curves: pd.DataFrame, keys: list[str] = KEYS) -> pd.DataFrame:
    """The last record of each run, with `cell` (data set and partition) and `guess` (what guessing may score)."""
    curves = curves.reset_index(drop=True)
    last = curves.loc[curves.groupby(keys, sort=False)["round"].idxmax()]
    last = last[[*keys, "round", "accuracy", "loss"]].reset_index(drop=True)
    guess = last["data_set"].map(lambda name: beyond_guessing(name, TEST_IMAGES))
    return last.assign(cell=last["data_set"] + ", " + last["partition"], guess=guess)


def guess_level(data_set: str) -> float:
    """The mean accuracy of guessing."""
    return 1 / (100 if data_set == "cifar100" else 10)


def beyond_guessing(data_set: str, test_images: int) -> float:
    """The accuracy of guessing plus three standard errors with this many test images."""
    return statistics.beyond_guessing(guess_level(data_set), test_images)


def learnt(rows: pd.DataFrame) -> pd.DataFrame:
    """The runs that are better than guessing; a table shows the others as blank cells."""
    return rows[rows["accuracy"] > rows["guess"]]


def early(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """`rows`, the ends, with `early`: the mean accuracy over the measured rounds of the first quarter."""
    measured = curves[curves["round"] > 0]
    quarter = measured.groupby("data_set")["round"].transform(lambda rounds: max(rounds.max() / 4, rounds.min()))
    first = measured[measured["round"] <= quarter].groupby(KEYS)["accuracy"].mean().rename("early").reset_index()
    return rows.merge(first, on=KEYS)


def quarters(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy in percent after a quarter, half, three quarters and all of the measured rounds."""
    rows = {}
    for names, runs in curves.groupby(["data_set", "partition", "method"], sort=False):
        by_round = runs.groupby("round")["accuracy"].mean()
        last = by_round.index.max()
        until = {f"{part}% of the rounds": by_round[by_round.index <= part / 100 * last] for part in (25, 50, 75, 100)}
        rows[names] = {mark: f"{100 * part.iloc[-1]:.1f}" if len(part) else "" for mark, part in until.items()}
    return pd.DataFrame(rows).T.rename_axis(["data_set", "partition", "method"])


def in_every_column(rows: pd.DataFrame) -> pd.DataFrame:
    """Centralised training has no partition: its run is repeated in every column of its data set."""
    central = rows["method"] == "Centralized"
    cells = rows.loc[~central, ["data_set", "partition", "cell"]].drop_duplicates()
    spread = rows[central].drop(columns=["partition", "cell"]).merge(cells, on="data_set")
    return pd.concat([spread, rows[~central]], ignore_index=True)


def holdings(counts: pd.DataFrame) -> pd.DataFrame:
    """How many classes and samples devices hold, from least to most, by partition (`experiments.device_counts`)."""
    with_classes = counts.assign(classes=counts["samples"] > 0)
    by_device = with_classes.groupby(["partition", "device"], sort=False)[["classes", "samples"]].sum()
    ends = by_device.groupby("partition", sort=False).agg(["min", "max"]).astype(str)
    ranges = {f"{name} per device": ends[name]["min"] + " to " + ends[name]["max"] for name in by_device}
    return pd.DataFrame(ranges)


def lost_against_iid(rows: pd.DataFrame, methods: tuple[str, ...] = STAR) -> pd.DataFrame:
    """iid accuracy minus that of the partition, seed by seed, where both were run.

    `accuracy_lost` is the same, but blank if the method's iid run is not even halfway between guessing and centralised
    training: a method that has hardly begun to learn has nothing to lose.
    """
    iid = rows[rows["partition"] == "iid"]
    reached = iid.set_index(["data_set", "method", "seed"])["accuracy"].rename("iid")
    central = iid[iid["method"] == "Centralized"].set_index(["data_set", "seed"])["accuracy"].rename("central")
    skewed = rows[rows["method"].isin(methods) & (rows["partition"] != "iid")]
    skewed = skewed.join(reached, on=["data_set", "method", "seed"]).join(central, on=["data_set", "seed"])
    skewed = skewed.dropna(subset=["iid"])
    lost, halfway = skewed["iid"] - skewed["accuracy"], (skewed["data_set"].map(guess_level) + skewed["central"]) / 2
    losses = skewed.assign(lost=lost, accuracy_lost=lost.where(skewed["iid"] >= halfway))
    return losses[[*KEYS, "accuracy", "iid", "lost", "accuracy_lost"]].reset_index(drop=True)


def method_leads(rows: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """By how much the first method ends above the second, by data set and partition, and that minus the iid lead."""
    table = rows.pivot_table(index=["data_set", "partition", "seed"], columns="method", values="accuracy")
    table = table.reindex(columns=[first, second])
    leads = (table[first] - table[second]).rename("lead").reset_index().rename(columns={"partition": "place"})
    iid = leads[leads["place"] == "iid"].set_index(["data_set", "seed"])["lead"].rename("iid")
    skewed = leads[leads["place"] != "iid"].join(iid, on=["data_set", "seed"])
    beyond = skewed.assign(lead=skewed["lead"] - skewed["iid"], place=skewed["place"] + " minus iid")
    return pd.concat([leads, beyond.drop(columns="iid")], ignore_index=True).dropna(subset=["lead"])


def plainest(held_out: pd.DataFrame) -> dict[str, str]:
    """For each data set, the plainest inputs whose accuracy on held-out samples is within a point of the best.

    `held_out` are the ends of `experiments.central_check`, with the column `inputs`.
    """
    chosen = {}
    for data_set, rows in held_out.groupby("data_set", sort=False):
        scores = rows.groupby("inputs")["accuracy"].mean()
        good = scores[scores >= scores.max() - NEAR_BEST].index
        chosen[str(data_set)] = next(name for name in CANDIDATES[str(data_set)] if name in good)
    return chosen


def central_accuracy(held_out: pd.DataFrame) -> dict[str, float]:
    """What centralised training reaches on held-out samples with the inputs in use, by data set."""
    used = held_out[held_out["inputs"] == held_out["data_set"].map(CHOSEN_INPUTS)]
    return used.groupby("data_set", sort=False)["accuracy"].mean().to_dict()


def in_percent(shares: dict[str, float]) -> str:
    """For reading: "mnist 97.5%; cifar10 81.0%"."""
    return "; ".join(f"{name} {share:.1%}" for name, share in shares.items())


def printed_central(data_sets: list[str]) -> dict[str, float]:
    """Table II's centralised accuracies as shares."""
    rows = printed_table2().query("method == 'Centralized' and partition == 'iid'").set_index("data_set")["printed"]
    return {name: rows[name] / 100 for name in data_sets}


# Currencies


def algorithm(method: str) -> Algorithm:
    """The method or variant of this name. The printed Algorithm 1 costs as much as FedSR with one more pass."""
    name, options = (METHODS | VARIANTS)[method]
    if method == LITERAL:
        name, options = "fedsr", options | {"passes": options["passes"] + 1}
    return algorithms.create(name, **options)


def epochs_in_a_row(algorithm: Algorithm, devices: int) -> int:
    """Epochs, of one device's data each, that a model makes one after another in a round."""
    epochs = getattr(algorithm, "epochs", None) or 1
    if isinstance(algorithm, FedSR):
        return epochs * algorithm.passes * min(algorithm.cluster_size, devices)
    if isinstance(algorithm, HierFAVG):
        return epochs * algorithm.iterations
    return epochs * devices if isinstance(algorithm, Ring) else epochs


def transfers_in_a_row(algorithm: Algorithm, devices: int) -> int:
    """Transfers one after another in a round, from the first that the cloud sends to the last that it receives."""
    if isinstance(algorithm, FedSR):
        return algorithm.passes * min(algorithm.cluster_size, devices) + 3
    if isinstance(algorithm, HierFAVG):
        return 2 * algorithm.iterations + 2
    return devices if isinstance(algorithm, Ring) else 2


def cloud_transfers(algorithm: Algorithm, devices: int) -> int:
    """Models that the cloud sends and receives in a round."""
    return sum("cloud" in hop for hop in transfers.hops(algorithm, devices))


def prices(devices: int, transfer_epochs: float = 1.0, algorithms: dict[str, Algorithm] | None = None) -> pd.DataFrame:
    """What a round costs in each currency, and in work, one row per method or variant, or per given algorithm.

    A transfer takes as long as `transfer_epochs` epochs of a device.
    """
    rows = {}
    for method, made in (algorithms or {name: algorithm(name) for name in (*DECENTRAL, *VARIANTS)}).items():
        in_a_row, sent = epochs_in_a_row(made, devices), transfers.per_round(made, devices)
        waiting = in_a_row + transfer_epochs * transfers_in_a_row(made, devices)
        spent = (1, in_a_row, sent, cloud_transfers(made, devices), waiting, _epochs_per_device(made))
        rows[method] = dict(zip((*CURRENCIES, WORK), spent, strict=True))
    return pd.DataFrame(rows).T.rename_axis("method")


def transfers_per_round(devices: int, edge_broadcasts: bool = False) -> dict[str, int]:
    """Models sent per round by each method, as Table III counts them, or with what edge servers send to devices."""
    return {method: transfers.per_round(algorithm(method), devices, edge_broadcasts) for method in DECENTRAL}


def overview(per_round: pd.DataFrame) -> pd.DataFrame:
    """For reading: a round of each method in work per device, then its cost in each currency."""
    return per_round[[WORK, *CURRENCIES[1:]]].map("{:g}".format)


def _epochs_per_device(algorithm: Algorithm) -> int:
    repeats = getattr(algorithm, "passes", getattr(algorithm, "iterations", 1))
    return (getattr(algorithm, "epochs", None) or 1) * repeats


# Table III


def of_table3(curves: pd.DataFrame) -> pd.DataFrame:
    """The curves that Table III counts: xi = 2, on CIFAR-100 xi = 4, without centralised training."""
    partition = curves["data_set"].map(lambda name: "xi=4" if name == "cifar100" else "xi=2")
    return curves[(curves["partition"] == partition) & (curves["method"] != "Centralized")]


def reaching(curves: pd.DataFrame, targets: dict[str, float], per_round: pd.DataFrame) -> pd.DataFrame:
    """What each run spends in each currency until it reaches its data set's target.

    A run that never does counts with one round more than it had, a lower bound, and `reached` is false. `transfers`,
    which is compared with the printed number, is blank for all seeds of a method of which one never arrives: the mean
    of the others would flatter it.
    """
    rows = []
    for labels, run in curves[curves["data_set"].isin(targets)].groupby(KEYS, sort=False):
        names = dict(zip(KEYS, labels, strict=True))
        rounds, reached = rounds_to(run, targets[names["data_set"]])
        spent = {at_least(name): rounds * float(per_round.loc[names["method"], name]) for name in per_round}
        rows.append(names | {"target": targets[names["data_set"]], "reached": reached} | spent)
    frame = pd.DataFrame(rows, columns=[*KEYS, "target", "reached", *map(at_least, per_round)])
    all_arrive = frame.groupby(KEYS[:3], sort=False)["reached"].transform("all")
    return frame.assign(transfers=frame["transfers_at_least"].where(all_arrive))


def at_least(currency: str) -> str:
    """The column of `reaching` for a currency: "load of the cloud" is load_of_the_cloud_at_least."""
    return f"{currency.replace(' ', '_')}_at_least"


def spent(frame: pd.DataFrame) -> pd.DataFrame:
    """For reading: mean (least to most) over seeds in each currency, by method; ">" if some seeds never arrive."""
    rows = {}
    for method, runs in frame.groupby("method", sort=False):
        sign = "" if runs["reached"].all() else "> "
        rows[method] = {name: sign + _mean_and_range(runs[at_least(name)]) for name in (*CURRENCIES, WORK)}
    return pd.DataFrame(rows).T.rename_axis("method")


def mean_rounds(frame: pd.DataFrame, method: str) -> str:
    """For reading: "22.4 rounds (95% interval: 10.1 to 34.7)"; "at least" if some seeds never arrive."""
    runs = frame[frame["method"] == method]
    if runs.empty:
        return "not run"
    seen = estimate(runs["rounds_at_least"])
    interval = seen.interval()
    spread = f" (95% interval: {interval[0]:.1f} to {interval[1]:.1f})" if interval else ""
    return f"{'' if runs['reached'].all() else 'at least '}{seen.mean:.1f} rounds{spread}"


def _mean_and_range(values: pd.Series) -> str:
    """7 (5 to 11); a single value alone."""
    spread = f" ({values.min():.0f} to {values.max():.0f})" if len(values) > 1 else ""
    return f"{values.mean():.0f}{spread}"


def literal_difference(frame: pd.DataFrame) -> pd.DataFrame:
    """`spent` of FedSR and of Algorithm 1 as printed, and how much more the latter spends, seed by seed."""
    both = frame[frame["method"].isin(["FedSR", LITERAL])]
    numbers = [at_least(name) for name in (*CURRENCIES, WORK)]
    by_seed = {method: rows.set_index("seed")[numbers] for method, rows in both.groupby("method")}
    if len(by_seed) < 2:
        return spent(both)
    more = (by_seed[LITERAL] - by_seed["FedSR"]).dropna()
    reached = both.groupby("seed")["reached"].all().reindex(more.index)
    difference = more.reset_index().assign(method="more as printed", reached=reached.to_numpy())
    return spent(pd.concat([both, difference], ignore_index=True))


def settled(curves: pd.DataFrame, target: float) -> pd.DataFrame:
    """The first round of each run at the target, and the first from which on its accuracy never falls below it.

    A run that never gets there, or ends below, counts with one round more than it had; `reached` and `stays` say so.
    """
    rows = []
    for labels, run in curves.groupby(KEYS, sort=False):
        first, reached = rounds_to(run, target)
        below = run.loc[run["accuracy"] < target, "round"].max()  # round 0, before training, is one of them
        after = run.loc[run["round"] > below, "round"]
        stays = len(after) > 0
        names = dict(zip(KEYS, labels, strict=True))
        settles = int(after.min() if stays else below + 1)
        rows.append(names | {"first": first, "reached": reached, "settled": settles, "stays": stays})
    return pd.DataFrame(rows)


def settled_text(frame: pd.DataFrame) -> pd.DataFrame:
    """For reading: mean (least to most) over seeds of `settled`, by method; ">" if some seeds never arrive or stay."""
    rows = {}
    for method, runs in frame.groupby("method", sort=False):
        words = {"first at the target": ("first", "reached"), "stays there from": ("settled", "stays")}
        rows[method] = {
            name: ("" if runs[done].all() else "> ") + _mean_and_range(runs[value])
            for name, (value, done) in words.items()
        }
    return pd.DataFrame(rows).T.rename_axis("method")


def against_print(frame: pd.DataFrame) -> pd.DataFrame:
    """How far each star run's rounds are from the printed ones, in doublings, with five local epochs and with one."""
    rounds = printed_rounds()
    star = frame[frame["method"].isin([*STAR, *ONE_EPOCH])]
    rows = star.assign(
        star=star["method"].str.split(",").str[0],
        epochs=np.where(star["method"].isin(ONE_EPOCH), 1, 5),
    )
    keys = pd.MultiIndex.from_frame(rows[["data_set", "star"]])
    rows["printed_rounds"] = rounds.reindex(keys).to_numpy()
    rows["distance"] = np.abs(np.log2(rows["rounds_at_least"] / rows["printed_rounds"]))
    return rows[["data_set", "star", "epochs", "seed", "reached", "rounds_at_least", "printed_rounds", "distance"]]


def halfway(distances: pd.DataFrame) -> pd.DataFrame:
    """For reading: rounds with five epochs and with one, what lies halfway in doublings, and print's, by star method.

    Geometric means over seeds. No number of seeds tells which of ours is nearer to a print that lies halfway.
    """
    means = np.exp(np.log(distances["rounds_at_least"]).groupby([distances["star"], distances["epochs"]]).mean())
    table = means.unstack().reindex(columns=[EPOCHS, 1])
    table = table.assign(halfway=np.sqrt(table[EPOCHS] * table[1]))
    table = table.assign(printed=distances.groupby("star")["printed_rounds"].first())
    names = ["five epochs", "one epoch", "halfway", "printed"]
    return table.dropna().round().astype(int).set_axis(names, axis="columns").rename_axis("rounds of")


def savings(frame: pd.DataFrame) -> pd.DataFrame:
    """How many times FedSR's transfers to the target on MNIST each rival needs, one row per rival, its epochs and seed.

    A rival that never arrives counts with a lower bound, and `reached` is false; seeds without FedSR are left out.
    `distance` says how far that is from the printed ratio, in doublings.
    """
    rows = frame[(frame["data_set"] == "mnist") & frame["reached"].where(frame["method"] == "FedSR", True)]
    fedsr = rows[rows["method"] == "FedSR"].set_index("seed")["transfers_at_least"]
    rivals = rows[rows["method"].isin([*DECENTRAL, *ONE_EPOCH, RING_ONE_EPOCH]) & (rows["method"] != "FedSR")]
    rivals = rivals[rivals["seed"].isin(fedsr.index)]
    times = rivals["transfers_at_least"] / rivals["seed"].map(fedsr)
    epochs = np.where(rivals["method"].isin([*ONE_EPOCH, RING_ONE_EPOCH]), 1, EPOCHS)
    named = rivals.assign(rival=rivals["method"].map(base), epochs=epochs, times=times)
    named["distance"] = np.abs(np.log2(times / named["rival"].map(printed_savings())))
    return named[["rival", "epochs", "seed", "reached", "times", "distance"]].reset_index(drop=True)


def printed_savings() -> pd.Series:
    """Table III on MNIST: each method's transfers divided by FedSR's."""
    table = printed_table3().query("data_set == 'mnist'").set_index("method")["printed"]
    return table / table["FedSR"]


def savings_text(frame: pd.DataFrame) -> pd.DataFrame:
    """For reading: geometric mean of `savings` and its 95% interval, by rival and epochs, beside the printed ratio."""
    table = frame.groupby(["rival", "epochs"], sort=False)[["times", "reached"]].apply(_times).unstack()
    table = table.reindex(columns=[EPOCHS, 1]).fillna("").set_axis(["five epochs", "one epoch"], axis="columns")
    return table.assign(printed=printed_savings().reindex(table.index).map("{:.1f}".format))


def _times(runs: pd.DataFrame) -> str:
    """2.8 (2.3 to 3.3), the mean of the logarithms; ">" if some seeds never arrive, one seed alone."""
    seen = estimate(np.log(runs["times"]))
    interval = seen.interval()
    spread = f" ({np.exp(interval[0]):.1f} to {np.exp(interval[1]):.1f})" if interval else ""
    return f"{'' if runs['reached'].all() else '> '}{np.exp(seen.mean):.1f}{spread}"


def printed_rounds() -> pd.Series:
    """Table III divided by each method's transfers per round, by data set and method."""
    table, per_round = printed_table3().dropna(subset=["printed"]), transfers_per_round(20)
    return table.set_index(["data_set", "method"])["printed"].div(table["method"].map(per_round).to_numpy())


def rounds_later(frame: pd.DataFrame, first: str, others: list[str]) -> pd.DataFrame:
    """For reading: how many rounds after the first method each of the others arrives, one column per seed."""
    rounds = frame.pivot_table(index="method", columns="seed", values="rounds_at_least")
    return rounds.reindex([other for other in others if other in rounds.index]).sub(rounds.loc[first]).astype(int)


def rounds_by_seed(judged: pd.DataFrame, checked: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """For reading: rounds to the target on MNIST, one row per method and one column per seed, those that are judged
    first; ">" where a run never arrives."""
    both = pd.concat([judged, checked]).query("data_set == 'mnist'").drop_duplicates(["method", "seed"])
    signs = both["reached"].map({True: "", False: "> "})
    rounds = signs + both["rounds_at_least"].map("{:.0f}".format)
    table = both.assign(rounds=rounds).pivot(index="method", columns="seed", values="rounds")
    return table.loc[methods, list(dict.fromkeys(both["seed"]))]


def against_rivals(frame: pd.DataFrame, rivals: tuple[str, ...]) -> pd.DataFrame:
    """FedSR and each rival as a pair, for claims that the rival is ahead."""
    pairs = []
    for rival in rivals:
        sides = frame[frame["method"].isin([rival, "FedSR"])]
        side = np.where(sides["method"] == "FedSR", "FedSR", "rival")
        pairs.append(sides.assign(rival=rival, side=side))
    return pd.concat(pairs, ignore_index=True)


def time_leads(timed: pd.DataFrame) -> pd.DataFrame:
    """By how many epochs of a device FedSR is sooner than each rival at the target, one row per inputs, rival and seed.

    `timed` are the rows of `against_rivals` with the column `inputs`; `training` counts epochs in a row, `waiting`
    transfers, too.
    """
    names = {at_least("epochs in a row"): "training", at_least("waiting time"): "waiting"}
    by_side = timed.rename(columns=names).set_index(["inputs", "rival", "seed", "side"])
    table = by_side[[*names.values(), "reached"]].astype(float).unstack("side").dropna()
    leads = {name: table[name]["rival"] - table[name]["FedSR"] for name in names.values()}
    return pd.DataFrame(leads | {"reached": table["reached"].all(axis=1)}).reset_index()


def time_leads_text(leads: pd.DataFrame, transfer_epochs: float) -> pd.DataFrame:
    """For reading: `time_leads` with 95% intervals, and for which transfers FedSR is ahead, by inputs and rival.

    That is unknown if a run never arrives, and if transfers were given no time.
    """
    rows = {}
    for names, seeds in leads.groupby(["inputs", "rival"], sort=False):
        at_once, later = seeds["training"].mean(), seeds["waiting"].mean()
        told = seeds["reached"].all() and transfer_epochs > 0
        rows[names] = {
            "lead, training only": _mean_and_interval(seeds["training"]),
            f"lead, a transfer takes {transfer_epochs:g}": _mean_and_interval(seeds["waiting"]),
            "ahead for transfers of": ahead_for(at_once, (later - at_once) / transfer_epochs) if told else UNKNOWN,
        }
    return pd.DataFrame(rows).T.rename_axis(["inputs", "rival"])


def ahead_for(at_once: float, per_epoch: float) -> str:
    """For which lengths of a transfer, in epochs, a lead is positive that is `at_once` without transfers and changes by
    `per_epoch` with their length."""
    if at_once * per_epoch >= 0:
        return "any length" if max(at_once, per_epoch) > 0 else "no length"
    return f"{'less' if at_once > 0 else 'more'} than {-at_once / per_epoch:.2f} epochs"


def _mean_and_interval(values: pd.Series) -> str:
    """+152 (108 to 196); a single value alone."""
    seen = estimate(values)
    interval = seen.interval()
    return f"{seen.mean:+.0f}" + (f" ({interval[0]:.0f} to {interval[1]:.0f})" if interval else "")


# Equal budgets


def equal_budgets(methods: list[str], rounds: int, per_round: pd.DataFrame) -> pd.DataFrame:
    """The rounds that each method can afford when all have what the thriftiest spends in `rounds` rounds.

    One row per currency and method. Left out of a currency are methods that spend nothing in it (the ring does not use
    the cloud) and those whose first round costs more than the budget.
    """
    rows = []
    for currency in CURRENCIES:
        price = per_round.loc[methods, currency]
        budget = rounds * price[price > 0].min()
        affordable = {method: int(budget / cost + 1e-9) for method, cost in price.items() if cost > 0}
        rows += [
            {"currency": currency, "method": method, "budget": budget, "length": length}
            for method, length in affordable.items()
            if length
        ]
    return pd.DataFrame(rows)


def lengths(budgets: pd.DataFrame) -> dict[str, list[int]]:
    """The rounds for which each method must be run, for `experiments.whole_schedules`."""
    return {str(method): sorted(rows["length"].unique().tolist()) for method, rows in budgets.groupby("method")}


def at_equal_budgets(curves: pd.DataFrame, budgets: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of each run at the end of its own schedule, one row per run and currency in which it spends the budget.

    `curves` are those of `experiments.whole_schedules`.
    """
    finished = ends(curves, [*KEYS, "length"])
    return budgets.merge(finished, on=["method", "length"])


def priced(curves: pd.DataFrame, per_round: pd.DataFrame) -> pd.DataFrame:
    """The curves once per currency, with `spent`, for drawing."""
    decentral = curves[curves["method"] != "Centralized"]
    parts = []
    for currency in CURRENCIES:
        price = decentral["method"].map(per_round[currency])
        parts.append(decentral.assign(currency=currency, spent=decentral["round"] * price)[price > 0])
    return pd.concat(parts, ignore_index=True)


# Figs. 9 and 10, Table IV


def ring_leads(ends: pd.DataFrame, epochs: list[int]) -> pd.DataFrame:
    """Fig. 9: by how much ring epochs end above the same number of local epochs, by partition, and xi = 4 minus iid."""
    table = ends[ends["epochs"].isin(epochs)].pivot_table(
        index=["data_set", "epochs", "seed"], columns=["partition", "kind"], values="accuracy"
    )
    leads = pd.DataFrame({name: table[name]["ring"] - table[name]["local"] for name in ("iid", "xi=4")})
    leads["xi=4 minus iid"] = leads["xi=4"] - leads["iid"]
    return leads.rename_axis(columns="place").stack().rename("lead").reset_index()


def share_gains(ends: pd.DataFrame) -> pd.DataFrame:
    """Fig. 10: what the largest rings gain over the smallest, by partition, and xi = 4 minus iid."""
    low, high = ends["share"].min(), ends["share"].max()
    table = ends.pivot_table(index="seed", columns=["partition", "share"], values="accuracy")
    gains = pd.DataFrame({name: table[name][high] - table[name][low] for name in ("iid", "xi=4")})
    gains["xi=4 minus iid"] = gains["xi=4"] - gains["iid"]
    return gains.rename_axis(columns="place").stack().rename("gain").reset_index()


def moments(curves: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """Table IV: the accuracy halfway and at the end."""
    read = curves.assign(moment=curves["round"].map({rounds // 2: "halfway", rounds: "end"})).dropna(subset=["moment"])
    read["cell"] = read["data_set"] + ", participation " + read["participation"].astype(str) + ", " + read["moment"]
    read["guess"] = read["data_set"].map(lambda name: beyond_guessing(name, TEST_IMAGES))
    columns = ["data_set", "partition", "participation", "moment", "cell", "method", "seed", "round"]
    return read[[*columns, "accuracy", "guess"]].reset_index(drop=True)


# Printed numbers


def printed_table2() -> pd.DataFrame:
    """Table II, its MNIST block and those of the other data sets."""
    return pd.concat([ledger.printed("fedsr/table2"), ledger.printed("fedsr/table2-images")], ignore_index=True)


def printed_table3() -> pd.DataFrame:
    """Table III: star and hierarchical methods, the ring, and FedSR."""
    parts = [ledger.printed(f"fedsr/{id}") for id in ("table3", "table3-ring", "table3-fedsr")]
    return pd.concat(parts, ignore_index=True)


def printed_targets() -> dict[str, float]:
    """Table III's targets as shares."""
    return dict(TARGETS)
