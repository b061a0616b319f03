"""From records to the numbers and tables of the FedGS notebooks, in the order of the notebooks."""

from dataclasses import replace

import numpy as np
import pandas as pd

from fedlib.judging import curves
from fedlib.judging.statistics import estimate
from fedlib.papers.fedgs.experiments.comparison import (
    ALIKE,
    BASELINE,
    FEDGS,
    FEW_INDEPENDENT,
    INDEPENDENT,
    PRINTED_ROUNDS,
    RANDOM_GROUPS,
    WRITERS,
    FactorySetting,
)
from fedlib.papers.fedgs.experiments.timing import (
    ROUND_SECONDS,
    ROUNDS_TO_TARGET,
    RoundTiming,
    fedgs_s,
    flips,
    sweep,
    threshold,
)
from fedlib.runs.tuning import best_point

# Samplers and initialisers: Figs. 3 and 4


def iid_divergence(real: np.ndarray, samples: int) -> float:
    """Root of the mean squared divergence of this many samples drawn independently from the real distribution."""
    return float(np.sqrt((1 - np.sum(real * real)) / samples))


def initialiser_ends(curves: pd.DataFrame, compared: pd.DataFrame) -> pd.DataFrame:
    """One row per problem and initialiser, and one for its optimum: final divergence and iterations."""
    last = curves.groupby(["seed", "factory", "initialiser"], sort=False).tail(1)
    last = last.rename(columns={"iteration": "iterations"})
    optimum = compared[compared["sampler"] == "Brute"].assign(initialiser="Brute")
    columns = ["seed", "factory", "initialiser", "divergence", "iterations"]
    return pd.concat([last, optimum], ignore_index=True)[columns].assign(point="final")


def gap_closed(curves: pd.DataFrame, ends: pd.DataFrame, size: int) -> pd.DataFrame:
    """Mean divergence at the start of the swaps, at their end and at the optimum, and the share of the gap they close.

    `curves` and `ends` as `initialiser_curves` and `initialiser_ends` give them. The warm-up from zero, `size`
    iterations, does not count as swaps.
    """
    problem = ["seed", "factory"]
    optimum = ends[ends["initialiser"] == "Brute"].set_index(problem)["divergence"]
    rows = {}
    for name, lines in curves.groupby("initialiser", sort=False):
        first = lines[lines["iteration"] == (size if name == "Zero" else 0)]
        start, end = first.set_index(problem)["divergence"], lines.groupby(problem)["divergence"].last()
        gap = (start - optimum).mean()
        rows[name] = {"start": start.mean(), "end": end.mean(), "closed": (start - end).mean() / gap if gap else np.nan}
    return pd.DataFrame(rows).T.assign(optimum=optimum.mean()).rename_axis("initialiser")


def by_stage(frame: pd.DataFrame, later: int) -> pd.DataFrame:
    """One row per seed and way to pick devices: the first iteration, and the mean of those from `later` on."""
    keys = ["seed", "sampler"]
    first = frame[frame["iteration"] == 0].groupby(keys, sort=False)["divergence"].mean()
    rest = frame[frame["iteration"] >= later].groupby(keys, sort=False)["divergence"].mean()
    parts = {"first": first, "later": rest}
    return pd.concat([part.reset_index().assign(stage=stage) for stage, part in parts.items()], ignore_index=True)


def over_factories(compared: pd.DataFrame) -> pd.DataFrame:
    """The divergences with point "factory", and each seed's and sampler's lowest and highest over the factories."""
    divergences = compared.drop(columns="seconds")
    grouped = divergences.groupby(["seed", "sampler"], sort=False)["divergence"]
    points = {"lowest": "min", "highest": "max"}
    extremes = [grouped.agg(how).reset_index().assign(point=point) for point, how in points.items()]
    return pd.concat([divergences.assign(point="factory"), *extremes], ignore_index=True)


def sampler_times(compared: pd.DataFrame) -> pd.DataFrame:
    """For each seed and sampler the median seconds of one selection."""
    return compared.groupby(["seed", "sampler"], sort=False)["seconds"].median().reset_index().assign(point="median")


def gaps_to_optimum(compared: pd.DataFrame) -> pd.DataFrame:
    """Mean and largest gap of each sampler to the optimum, and in how many of the problems it finds the optimum."""
    wide = compared.pivot_table(index=["seed", "factory"], columns="sampler", values="divergence", sort=False)
    gap = wide.sub(wide["Brute"], axis=0)
    shown = pd.DataFrame({"mean gap": gap.mean(), "largest gap": gap.max(), "optimum found": (gap < 1e-12).sum()})
    return shown.reindex(compared["sampler"].unique()).assign(problems=len(gap))


def arrivals(trace: pd.DataFrame) -> pd.DataFrame:
    """For each problem, each sampler's last divergence and time, and the seconds until it is as good as GBP-CS
    (infinite: never)."""
    rows = []
    for _, problem in trace.groupby(["seed", "factory"], sort=False):
        level = problem[problem["sampler"] == "GBP-CS"]["divergence"].iloc[-1]
        for name, reports in problem.groupby("sampler", sort=False):
            last, good = reports.iloc[-1], reports[reports["divergence"] <= level]
            about = {column: last[column] for column in ("seed", "factory", "divergence", "seconds")}
            first = good["seconds"].iloc[0] if len(good) else np.inf
            rows.append({"sampler": name} | about | {"seconds_to_level": first})
    return pd.DataFrame(rows)


def sampler_ends(compared: pd.DataFrame, arrived: pd.DataFrame) -> pd.DataFrame:
    """The final divergences of all problems, with the times of `arrivals` for those that were traced.

    A sampler that never became as good has `reached` 0 and the longest time that any sampler ran on that problem: one
    that gives up at once is not an early one.
    """
    reached = np.isfinite(arrived["seconds_to_level"])
    longest = arrived.groupby(["seed", "factory"])["seconds"].transform("max")
    seconds = arrived["seconds_to_level"].where(reached, longest)
    times = arrived[["seed", "factory", "sampler"]].assign(seconds_to_level=seconds, reached=reached.astype(float))
    return compared.merge(times, how="left", on=["seed", "factory", "sampler"]).assign(point="final")


# Table II: final scores, and what they cost

PRINTED_TARGET = 0.82
TARGET_SHARE = 82.0 / 82.1  # the printed target as a share of what FedAvg ends with, by Table II
TABLE2_COLUMNS = {"fedgs/table2-loss": "loss", "fedgs/table2-rounds": "rounds", "fedgs/table2-gain": "gain"}
GRADIENTS, STEPS, INSIDE, OUTSIDE = (
    "sample gradients",
    "steps one after another",
    "models inside factories",
    "models to and from the cloud",
)
CURRENCIES = {"rounds": None, GRADIENTS: GRADIENTS, "transfers through the cloud": OUTSIDE}  # name: column of the costs
PRINTED_SAMPLES = 805_263 / 3_550  # per device, by the paper's count of FEMNIST


def diverged_as_untrained(frame: pd.DataFrame) -> pd.DataFrame:
    """The records with the scores of round 0 in place of those that are not finite: a run that diverges counts against
    its row, as one that has learnt nothing."""
    keys, scores = ["method", "data_set", "seed"], ["accuracy", "loss"]
    diverged = ~np.isfinite(frame[scores]).all(axis=1)
    start = frame[frame["round"] == 0].set_index(keys)[scores]
    before = start.reindex(pd.MultiIndex.from_frame(frame[keys])).set_axis(frame.index)
    return frame.assign(**{score: frame[score].where(~diverged, before[score]) for score in scores})


def targets(frame: pd.DataFrame, last: int, rounds: int) -> dict[int, float]:
    """The target accuracy of each seed: 82% if the printed rounds are run, otherwise the same share of what FedAvg ends
    with on this seed as in the table.

    Where FedAvg has collapsed, to less than half of its median, it sets no target: the seed gets that of the median.
    """
    baseline = frame[frame["method"] == BASELINE.name].sort_values("round").groupby("seed")["accuracy"]
    ends = baseline.apply(lambda accuracy: accuracy.tail(last).mean())
    ends = ends.where(ends >= ends.median() / 2, ends.median())
    return {seed: PRINTED_TARGET if rounds >= PRINTED_ROUNDS else TARGET_SHARE * end for seed, end in ends.items()}


def final_scores(frame: pd.DataFrame, last: int, rounds: int) -> pd.DataFrame:
    """One row per run as the ledger wants it: final scores, rounds to the target of its seed, gain over FedAvg of the
    same seed; the mean accuracy of all rounds (`throughout`), and by how much the last rounds are above those ten
    rounds before (`rise`)."""
    goals, keys = targets(frame, last, rounds), ["method", "data_set"]
    parts = [curves.final(runs, keys, last, goals[seed]) for seed, runs in frame.groupby("seed", sort=False)]
    scores = pd.concat(parts, ignore_index=True).assign(stage="final")
    trained = frame[frame["round"] > 0].groupby([*keys, "seed"])["accuracy"]
    before = frame[frame["round"] <= frame["round"].max() - 10].groupby([*keys, "seed"])["accuracy"]
    runs = pd.MultiIndex.from_frame(scores[[*keys, "seed"]])
    scores["throughout"] = trained.mean().reindex(runs).to_numpy()
    scores["rise"] = (
        scores["accuracy"] - before.agg(lambda accuracy: accuracy.tail(last).mean()).reindex(runs).to_numpy()
    )
    baseline = scores[scores["method"] == BASELINE.name].set_index("seed")["accuracy"]
    scores["gain"] = scores["accuracy"] - scores["seed"].map(baseline)
    scores["rounds_of_500"] = scores["rounds_to_target"] if rounds == PRINTED_ROUNDS else np.nan
    return scores


def times_fewer(scores: pd.DataFrame) -> str:
    """How many times as many rounds as FedGS FedAvg needs to its target, in words: the ratio of means. It is a bound
    where runs of one of them never arrive, and rough where runs of both never do."""
    runs = {name: scores[scores["method"] == name].set_index("seed") for name in (BASELINE.name, FEDGS)}
    shared = runs[BASELINE.name].index.intersection(runs[FEDGS].index)
    slow, fast = (runs[name].loc[shared] for name in (BASELINE.name, FEDGS))
    words = {(True, True): "", (True, False): "at most ", (False, True): "at least ", (False, False): "roughly "}
    bound = words[bool(slow["reached"].all()), bool(fast["reached"].all())]
    return f"{bound}{slow['rounds_to_target'].mean() / fast['rounds_to_target'].mean():.1f}"


def server_leads(scores: pd.DataFrame, servers: list[str]) -> pd.DataFrame:
    """How far each of the servers of FedOpt ends above each other row but FedGS, seed by seed: server, rival, lead."""
    wide = scores.pivot(index="seed", columns="method", values="accuracy")
    rivals = [name for name in wide if name not in (*servers, FEDGS, RANDOM_GROUPS)]
    pairs = [(server, rival) for server in servers if server in wide for rival in rivals]
    leads = [
        pd.DataFrame({"server": server, "rival": rival, "lead": wide[server] - wide[rival]}) for server, rival in pairs
    ]
    return pd.concat(leads).dropna().rename_axis("seed").reset_index()


def table2(scores: pd.DataFrame) -> pd.DataFrame:
    """Table II for reading: accuracy, loss, gain over FedAvg with its 95% interval, rounds to the target."""
    rows = {}
    for name, runs in scores.groupby("method", sort=False):
        short = int((~runs["reached"]).sum())
        rounds = f"{runs['rounds_to_target'].mean():.1f}"
        rows[name] = {
            "accuracy, %": f"{100 * runs['accuracy'].mean():.1f}",
            "gain over FedAvg, points": "" if name == BASELINE.name else with_interval(100 * runs["gain"]),
            "loss": f"{runs['loss'].mean():.3f}",
            "rounds to target": f"{rounds}, {short} never" if short else rounds,
            "late rise, points": f"{100 * runs['rise'].mean():+.1f}" if runs["rise"].notna().any() else "",
            "seeds": len(runs),
        }
    return pd.DataFrame(rows).T.rename_axis("method")


def with_interval(differences: pd.Series) -> str:
    """A mean with its 95% interval: "+2.1 (1.4 to 2.8)"; without it for a single unit."""
    known = differences.dropna()
    if known.empty:
        return ""
    mean, interval = estimate(known).mean, estimate(known).interval()
    return f"{mean:+.1f}" + ("" if interval is None else f" ({interval[0]:.1f} to {interval[1]:.1f})")


def costs(setting: FactorySetting, sizes: np.ndarray) -> pd.DataFrame:
    """What a round costs: sample gradients, steps one after another, and models sent, for FedGS and for its rivals.

    `sizes` are the devices' numbers of samples. A rival's participants download and upload one model each through the
    cloud. In FedGS each selected device exchanges its model with the base station in every iteration, and only the base
    stations exchange theirs with the cloud.
    """
    table = _costs(setting, sizes)
    table.loc["FedGS / rival, as printed"] = _costs(FactorySetting("femnist"), PRINTED_SAMPLES).loc["FedGS / rival"]
    return table.reset_index()


def _costs(setting: FactorySetting, sizes: np.ndarray | float) -> pd.DataFrame:
    taking_part = setting.factories * setting.selected
    steps = float(np.mean(setting.epochs * np.ceil(sizes / setting.batch)))
    rival = (setting.epochs * np.mean(sizes) * taking_part, steps, 0, 2 * taking_part)
    drawn = setting.iterations * setting.batch * taking_part
    fedgs = (drawn, setting.iterations, 2 * taking_part * setting.iterations, 2 * setting.factories)
    index = pd.Index(["each rival", FEDGS], name="method")
    table = pd.DataFrame([rival, fedgs], columns=[GRADIENTS, STEPS, INSIDE, OUTSIDE], index=index, dtype=float)
    table.loc["FedGS / rival"] = table.loc[FEDGS] / table.loc["each rival"].replace(0, np.nan)
    return table


def at_equal_price(frame: pd.DataFrame, costs: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """Accuracy of these methods at the largest cost that all of them reach, seed by seed.

    One row per seed, method and currency: rounds, sample gradients, transfers through the cloud. It is the mean of the
    last tenth of the rounds that this buys, at least of one, because the accuracy of a single round swings.
    """
    by_method = costs.set_index("method")
    by_round = frame[frame["method"].isin(methods)].set_index(["method", "seed", "round"])["accuracy"]
    last = frame["round"].max()
    rows = []
    for currency, column in CURRENCIES.items():
        prices = {name: 1.0 if column is None else by_method.loc[_payer(name), column] for name in methods}
        budget = min(last * price for price in prices.values())
        for (name, seed), curve in by_round.groupby(level=["method", "seed"], sort=False):
            bought = budget / prices[name]
            reached = _mean_of_last_tenth(curve.droplevel(["method", "seed"]).sort_index(), bought)
            rows.append({"currency": currency, "price": budget, "method": name, "seed": seed, "accuracy": reached})
    return pd.DataFrame(rows)


def _mean_of_last_tenth(accuracy: pd.Series, rounds: float) -> float:
    """The mean accuracy of the last tenth of these rounds, read between measured rounds where it ends there."""
    places = rounds - np.arange(max(1, round(rounds / 10)))
    return float(np.interp(places, accuracy.index, accuracy).mean())


def _payer(method: str) -> str:
    """The row of the costs that applies to a method."""
    return FEDGS if method in (FEDGS, RANDOM_GROUPS) else "each rival"


def leads(paid: pd.DataFrame, currency: str) -> pd.DataFrame:
    """For reading, at equal cost: the accuracy of each method, and how far FedGS is above it."""
    table = paid[paid["currency"] == currency].pivot(index="seed", columns="method", values="accuracy") * 100
    rows = {
        name: {
            "accuracy, %": f"{table[name].mean():.1f}",
            "FedGS above, points": "" if name == FEDGS else with_interval(table[FEDGS] - table[name]),
            "seeds": int(table[name].notna().sum()),
        }
        for name in paid["method"].unique()
    }
    return pd.DataFrame(rows).T.rename_axis(f"at equal {currency}")


def at_rates(tuned: pd.DataFrame, printed: pd.DataFrame, last: int) -> pd.DataFrame:
    """Scores of the rows that were also run at the printed rate, after as many rounds: one row per run, `rate` says
    which."""
    rounds = int(printed["round"].max())
    same = tuned["method"].isin(printed["method"]) & (tuned["round"] <= rounds) & tuned["seed"].isin(printed["seed"])
    both = {"tuned": tuned[same], "printed": printed}
    return pd.concat(
        [final_scores(frame, last, rounds).assign(rate=rate) for rate, frame in both.items()], ignore_index=True
    )


def lead_by_data(writers: pd.DataFrame, alike: pd.DataFrame) -> pd.DataFrame:
    """The final scores with devices that are writers and with devices alike, of the seeds and rows that both have.

    FedGS's rows with writers also have `more`: how much larger its lead over FedAvg is there than with devices alike.
    """
    keys = ["method", "seed"]
    both = pd.concat([writers.assign(devices=WRITERS), alike.assign(devices=ALIKE)], ignore_index=True)
    both = both[both.groupby(keys)["devices"].transform("nunique") == 2]
    lead = both[both["method"] == FEDGS].pivot(index="seed", columns="devices", values="gain")
    more = both["seed"].map(lead[WRITERS] - lead[ALIKE])
    return both.assign(more=more.where((both["method"] == FEDGS) & (both["devices"] == WRITERS)))


def networks(small: pd.DataFrame, wide: pd.DataFrame, round: int) -> pd.DataFrame:
    """Accuracy after this round with the small and with the wide network, of the rows and seeds that both have."""
    keys = ["method", "seed"]
    narrow = small[small["round"] == round].set_index(keys)["accuracy"]
    broad = wide[wide["round"] == round].set_index(keys)["accuracy"]
    table = pd.DataFrame({"small": narrow, "wide": broad}).dropna().reset_index()
    return table.melt(keys, var_name="network", value_name="accuracy").assign(round=round)


# Proposition 2


def relative_gradients(divergences: pd.DataFrame) -> pd.DataFrame:
    """With `relative`: a batch's distance over the mean one of as many independent samples of the same seed and round,
    so that neither its size nor the shrinking norm counts."""
    by_round = divergences.pivot_table(index=["seed", "round"], columns="batch", values="gradient")
    few = divergences["batch"].isin(["one device", FEW_INDEPENDENT])
    places = pd.MultiIndex.from_frame(divergences[["seed", "round"]])
    level = np.where(few, by_round[FEW_INDEPENDENT].reindex(places), by_round[INDEPENDENT].reindex(places))
    return divergences.assign(relative=divergences["gradient"] / level)


def gradient_table(divergences: pd.DataFrame) -> pd.DataFrame:
    """For reading: by kind of batch the mean divergence of classes and of gradients, the two terms of the bound, and
    the gradients round by round."""
    columns = {
        "divergence": "classes",
        "gradient": "gradient",
        "relative": "gradient, independent ones of as many: 1",
        "same_classes": "first term, same classes",
        "other_classes": "second term, other classes",
    }
    table = divergences.groupby("batch", sort=False)[list(columns)].mean().rename(columns=columns)
    rounds = divergences.pivot_table(index="batch", columns="round", values="gradient", sort=False)
    return table.join(rounds.add_prefix("gradient, round ")).round(3)


# Hyper-parameters: Figs. 5 and 7


def grid_scores(frame: pd.DataFrame, axes: list[str], last: int) -> pd.DataFrame:
    """One row per run with its final scores; diverged runs keep the accuracy they have."""
    return curves.final(frame, ["method", *axes], last, 1.0).drop(columns=["rounds_to_target", "reached", "roughness"])


def best_rates(tuned: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Client and server learning rate with the highest accuracy, method by method."""
    options = ["client_lr", "server_lr"]
    best = {str(name): best_point(runs, options, "accuracy") for name, runs in tuned.groupby("method", sort=False)}
    return {name: (point["client_lr"], point["server_lr"]) for name, point in best.items()}


def at_equal_work(frame: pd.DataFrame) -> pd.DataFrame:
    """Fig. 5a at equal work: each run's accuracy once it has computed as many sample gradients as the cell with the
    fewest computes in all; between two measured rounds, the later one counts."""
    per_round = frame["batch"] * frame["iterations"]
    budget = (per_round * frame["round"].max()).min()
    paid = frame[per_round * frame["round"] >= budget]
    return paid.groupby(["batch", "iterations", "seed"], sort=False).first().reset_index()


def accuracy_surface(scores: pd.DataFrame, rows: str, columns: str) -> pd.DataFrame:
    """Mean accuracy over seeds in percent as a table."""
    return scores.pivot_table(index=rows, columns=columns, values="accuracy").mul(100)


# The time of a round: Proposition 4


def crossings(timing: RoundTiming) -> pd.DataFrame:
    """`flips` as a table."""
    wins = {"iterations": "below", "factories": "above", "selected": "above", "ratio": "above"}
    symbols = {"iterations": "T", "factories": "M", "selected": "L", "ratio": "B_int / B_ext"}
    places = flips(timing).items()
    rows = [(symbols[name], f"{getattr(timing, name):g}", f"{wins[name]} {place:.3g}") for name, place in places]
    return pd.DataFrame(rows, columns=["what moves", "here", "FedGS is faster"]).set_index("what moves")


def round_seconds(timing: RoundTiming, ratios: list[float]) -> pd.DataFrame:
    """Seconds of a round of FedGS and FedAvg at each ratio."""
    moved = _over_ratios(timing, ratios)
    return moved[moved["method"].isin(["FedGS", "FedAvg"])]


def _over_ratios(timing: RoundTiming, ratios: list[float]) -> pd.DataFrame:
    return sweep(timing, {"ratio": ratios}).rename(columns={"value": "ratio"}).drop(columns="sweep")


def hours_to_target(timing: RoundTiming, ratios: list[float]) -> pd.DataFrame:
    """Hours to 82% accuracy with the rounds that Table II prints, over the ratio."""
    moved = _over_ratios(timing, ratios)
    rounds = [ROUNDS_TO_TARGET[method.split(",")[0]] for method in moved["method"]]
    return moved.assign(rounds=rounds, hours=moved["seconds"] * rounds / 3600)


def break_even(timing: RoundTiming) -> pd.DataFrame:
    """The ratio from which FedGS needs less time than each rival, for one round and to 82%, with T_select."""
    counts = {"one round": (1, 1), "to 82%": (ROUNDS_TO_TARGET["FedGS"], ROUNDS_TO_TARGET["FedAvg"])}
    ends = [replace(timing, ratio=1.0), replace(timing, ratio=np.inf)]
    rows = []
    for method, seconds in list(ROUND_SECONDS.items())[1:]:
        for time, (ours, theirs) in counts.items():
            place = _crossing(*(float(ours * fedgs_s(end) - theirs * seconds(end)) for end in ends))
            rows.append({"against": method, "time": time, "FedGS is faster from a ratio of": place})
    return pd.DataFrame(rows)


def _crossing(at_one: float, at_infinity: float) -> float:
    """The ratio at which a difference of times is zero: it is linear in 1 / ratio, so two points are enough."""
    return max(0.0, 1 - at_one / at_infinity) if at_infinity < 0 else np.inf


def who_is_faster(timing: RoundTiming) -> str:
    """The times of a round, and what the condition says, in words."""
    seconds = {name: float(round_s(timing)) for name, round_s in ROUND_SECONDS.items()}
    times = ", ".join(f"{name}: {value:.0f} s" for name, value in seconds.items())
    place = float(threshold(timing))
    if not np.isfinite(place):
        return f"{times}. With one device per factory there is nothing to save: FedAvg's round is never the longer one."
    holds = "holds" if place < timing.ratio else "does not hold"
    return f"{times}. TL/(M(L-1)) = {place:.2f} < {timing.ratio:g} {holds}."
