"""Lesson 7, the bill: what rounds cost in messages, in energy and in time.

Messages: vectors sent until a target is reached. Energy: FCBAFL's radio cell. Time: the devices of `course.clock`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import log2

import numpy as np
import pandas as pd

from fedlib import engine, wireless
from fedlib.algorithms import create
from fedlib.course import clock
from fedlib.course.clock import Diary, TimedFederation
from fedlib.course.lesson6.problem import CHOSEN, LOCAL, PRESENT, PROBLEM, race
from fedlib.judging import transfers
from fedlib.judging.curves import rounds_to
from fedlib.judging.statistics import estimate
from fedlib.problem.federation import federate
from fedlib.problem.streams import generator
from fedlib.runs import study
from fedlib.runs.computations import computation
from fedlib.wireless import Scenario
from fedlib.wireless.devices import WATT_PER_DBM


def tuned_race(rounds: int, seeds: range) -> pd.DataFrame:
    """The race of lesson 6, with the rates that its tuning chose."""
    return study.execute(race(CHOSEN, rounds, seeds))


MODEL_BITS = 32 * 7850  # softmax regression on 784 pixels and a one, ten classes


@dataclass(frozen=True)
class Price:
    """What one round asks of a participant: vectors of the model's size, and passes over its own data."""

    down: int
    up: int
    passes: int

    @property
    def models(self) -> int:
        """Vectors sent in a round, to and from all participants; the star of `transfers` sends one down and one up."""
        star = transfers.per_round(create("fedavg", **LOCAL), PROBLEM["clients"])
        return star * (self.down + self.up) // 2


# Ten batches of 16 are four passes over a client's 40 samples.
AVERAGE = Price(down=1, up=1, passes=4)  # model down, model up; what the server remembers is not sent
PRICES = {
    "FedAvg": AVERAGE,
    "FedAvgM": AVERAGE,
    "FedAdagrad": AVERAGE,
    "FedAdam": AVERAGE,
    "FedYogi": AVERAGE,
    "FCBAFL": Price(down=2, up=2, passes=6),  # model and gradient both ways; a gradient before and one after the steps
    "ACFMO": Price(
        down=3, up=2, passes=9
    ),  # model; gradient; accelerated model and anchor; model. Steps take two gradients
}


def cell(method: str, deadline_s: float, radius_km: float = 0.5, devices: int = PRESENT) -> Scenario:
    """FCBAFL's radio cell with the participants of a round; what they compute and send is the method's."""
    price = PRICES[method]
    bits = price.up * MODEL_BITS
    return Scenario(
        devices=devices, radius_km=radius_km, deadline_s=deadline_s, local_iterations=price.passes, payload_bits=bits
    )


@cache
def plan(method: str, deadline_s: float) -> wireless.Allocation:
    """The cheapest way for ten participants to make a round of the method in time."""
    return wireless.joint_optimum(wireless.draw_devices(cell(method, deadline_s), generator(0, "devices")), deadline_s)


def joules(method: str, deadline_s: float) -> float:
    """Energy of all participants in one round at the optimal plan; NaN where the deadline cannot be met."""
    return float(plan(method, deadline_s).energy_j)


def price_list() -> pd.DataFrame:
    """What a round of each method asks of one participant, and what all send together."""
    rows = {name: asdict(price) | {"models sent": price.models} for name, price in PRICES.items()}
    return pd.DataFrame(rows).T.rename_axis("one round of")


def energy_prices(deadlines_s: list[float]) -> pd.DataFrame:
    """Joules of a round of each method at each deadline, "-" where it cannot be met."""
    rows = {name: {f"{each:g} s": joules(name, each) for each in deadlines_s} for name in PRICES}
    return (
        pd.DataFrame(rows)
        .T.rename_axis("joules per round")
        .map(lambda value: "-" if np.isnan(value) else f"{value:.1f}")
    )


def bills(frame: pd.DataFrame, target: float) -> pd.DataFrame:
    """Rounds until the target is first reached, their 95% interval over seeds, and the models sent until then.

    Empty where some seed never gets there.
    """
    rows = {}
    for name, runs in frame.groupby("method", sort=False):
        arrivals = [rounds_to(one_seed, target) for _, one_seed in runs.groupby("seed")]
        finished = [rounds for rounds, reached in arrivals if reached]
        mean, low, high = mean_and_interval(finished) if len(finished) == len(arrivals) else [np.nan] * 3
        price = PRICES[name].models
        rows[name] = {"rounds": mean, "low": low, "high": high, "models sent": mean * price}
        rows[name] |= {"models low": low * price, "models high": high * price, "seeds that arrive": len(finished)}
    return pd.DataFrame(rows).T.rename_axis(f"to reach {target:.0%}").round(1)


def mean_and_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean and the two ends of its 95% interval; of a single value the value."""
    found = estimate(np.array(values))
    return found.mean, *(found.interval() or (found.mean, found.mean))


def mean_bill(bills: list[int | None]) -> str:
    """The mean of the seeds' bills; "never" where one of them has none."""
    due = [bill for bill in bills if bill is not None]
    return f"{np.mean(due):.0f}" if len(due) == len(bills) else "never"


BAND_HZ, POWER_W = 1e6, 0.5


def sending_j(share: float, snr: float, bits: float = 5e5) -> float:
    """Joules for sending `bits` on a share of the band; `snr` is signal to noise on the whole band."""
    return POWER_W * bits / (share * BAND_HZ * log2(1 + snr / share))


def snr_at(distance_km: float) -> float:
    """Signal to noise on the whole band at a distance, with the path loss of the paper and no fading."""
    noise_w = BAND_HZ * WATT_PER_DBM * 10 ** (Scenario.noise_dbm_per_hz / 10)
    return float(POWER_W * wireless.path_gain(distance_km) / noise_w)


def three_plans(scenario: Scenario, seed: int) -> tuple[pd.DataFrame, str]:
    """Joules of sending and computing when everybody hurries, when everybody is just in time, and at the optimum."""
    devices, deadline_s = wireless.draw_devices(scenario, generator(seed, "devices")), scenario.deadline_s
    equal, optimum = wireless.equal_share(devices), wireless.joint_optimum(devices, deadline_s)
    slowest = wireless.optimal_frequency(devices, equal, deadline_s)
    late = int(np.isnan(slowest).sum())
    slowest = np.where(np.isnan(slowest), devices.frequency_max_hz, slowest)
    plans = {
        "equal shares,\nfull speed": (equal, devices.frequency_max_hz),
        "equal shares,\njust in time": (equal, slowest),
        "optimal shares\nand speeds": (optimum.share, optimum.frequency_hz),
    }
    rows = {
        name: {
            "sending": wireless.transmit_energy_j(devices, share).sum(),
            "computing": wireless.compute_energy_j(devices, speed).sum(),
        }
        for name, (share, speed) in plans.items()
    }
    text = f"Equal shares make {late} of {scenario.devices} devices late. {optimum.feasibility.explain()}"
    return pd.DataFrame(rows).T, text


def plans_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The bars in numbers, with what each plan saves."""
    total = frame.sum(axis=1, skipna=False)
    table = frame.assign(total=total).round(1)
    for position, rival in enumerate(("first", "second")):
        saved = 100 * (1 - total / total.iloc[position])
        table[f"saved on the {rival}, %"] = ["" if row <= position else f"{each:.1f}" for row, each in enumerate(saved)]
    return table.rename(index=lambda name: name.replace("\n", " ")).rename_axis("plan")


def whole_cell(deadline_s: float, radius_km: float, devices: int) -> Scenario:
    """FCBAFL's cell as the paper has it: twenty iterations, model and gradient in 500,000 bits."""
    return Scenario(devices=devices, radius_km=radius_km, deadline_s=deadline_s)


ENERGY_J, TIME_S = 150.0, 120.0  # what all participants together may spend, and how long everything may take


def longest_training(method: str) -> tuple[float, int]:
    """The deadline (to a tenth of a second) with which both budgets pay for most rounds, and how many these are."""
    deadlines_s = np.arange(20, 301) / 10
    devices = wireless.draw_devices(cell(method, deadlines_s[0]), generator(0, "devices"))
    energy_j = wireless.joint_optimum(devices[None], deadlines_s).energy_j
    rounds = np.floor(np.nan_to_num(np.minimum(TIME_S / deadlines_s, ENERGY_J / energy_j)) + 1e-9)
    longest = np.flatnonzero(rounds == rounds.max())[-1]  # among equals, the deadline that needs least energy
    return float(deadlines_s[longest]), int(rounds[longest])


DEADLINES_S = [4, 5, 6, 8, 10, 12, 15]  # of the price list


def numbers_of(method: str) -> set[float]:
    """What the lesson tells about a method's cost: models and passes per round, joules as printed, most rounds."""
    price = PRICES[method]
    told = [joules(method, deadline_s) for deadline_s in DEADLINES_S]
    printed = {round(energy_j, digits) for energy_j in told if not np.isnan(energy_j) for digits in (0, 1)}
    return printed | {float(price.models), float(price.passes), float(longest_training(method)[1])}


def outcome(choice: dict, frame: pd.DataFrame) -> pd.DataFrame:
    """What the choice would have reached, and what every method would with its longest training."""
    rows = {f"your choice: {choice['method']}": (choice["method"], choice["deadline_s"], choice["rounds"])}
    rows |= {name: (name, *longest_training(name)) for name in PRICES}
    last = frame["round"].max()
    found = {}
    for label, (name, deadline_s, rounds) in rows.items():
        reached = 100 * frame[(frame["method"] == name) & (frame["round"] == min(rounds, last))]["accuracy"]
        spent = {"seconds": rounds * deadline_s, "joules": rounds * joules(name, deadline_s)}
        mean, low, high = mean_and_interval(reached)
        scores = {"accuracy, %": mean, "95% from": low, "to": high}
        found[label] = {"deadline, s": deadline_s, "rounds": rounds} | spent | scores
    return pd.DataFrame(found).T.astype({"rounds": int}).round(1)


# ---------------------------------------------------------------- time

SECONDS = 60.0  # how long a trial lasts
LATE = (8, 9)  # digits of the slow devices, where speed and data are linked
DEADLINE_S, MIXING = 1.0, 0.2  # best of 1, 2 and 4 s, and of 0.1, 0.2, 0.4 and 0.8, on seeds 1000 to 1002
STRATEGIES: dict[str, Callable[[TimedFederation], Diary]] = {
    "wait for all": lambda trial: trial.rounds(clock.wait_for_all, SECONDS),
    "first 10 of 13": lambda trial: trial.rounds(clock.first_of(10), SECONDS, invited=13),
    "1 s, leave out the late": lambda trial: trial.rounds(clock.deadline(DEADLINE_S), SECONDS),
    "1 s, send what is done": lambda trial: trial.rounds(clock.partial(DEADLINE_S), SECONDS),
    "the same with FedNova": lambda trial: trial.rounds(clock.partial(DEADLINE_S), SECONDS, normalised=True),
    "asynchronous": lambda trial: trial.asynchronous(MIXING, SECONDS),
}


def trial(seed: int, linked: bool = False, problem: dict = PROBLEM) -> TimedFederation:
    """The digits of the race on devices with a clock; `linked`: the more eights and nines, the slower the device."""
    federation = federate(**problem, seed=seed)
    counts = federation.class_counts.numpy()
    slowest = counts[:, list(LATE)].sum(1) / counts.sum(1) if linked else None
    devices = clock.draw_devices(federation.clients, seed, slowest)
    work = engine.Work(lr=CHOSEN["FedAvg"]["lr"], batch=LOCAL["batch"], steps=LOCAL["steps"])
    return TimedFederation(federation, devices, work, PRESENT)


@computation
def minute(strategy: str, federation: dict, seed: int, linked: bool, times: list[float]) -> pd.DataFrame:
    """Accuracy of the server's model at these times: on all digits, on those of slow devices and on the others."""
    diary, others = STRATEGIES[strategy](trial(seed, linked, federation)), [d for d in range(10) if d not in LATE]
    moments = np.array(times)
    scores = {
        "accuracy": diary.at(moments),
        "8 and 9": diary.at(moments, LATE),
        "the others": diary.at(moments, tuple(others)),
    }
    return pd.DataFrame({"method": strategy, "seed": seed, "seconds": moments} | scores)


def over_time(seeds: range) -> pd.DataFrame:
    """Every strategy on every seed, second by second; a device's speed has nothing to do with its data."""
    return _minutes(seeds, linked=False, times=np.arange(SECONDS + 1))


def late_digits(seeds: range) -> pd.DataFrame:
    """Every strategy on every seed after a minute, when the slow devices hold most eights and nines."""
    return _minutes(seeds, linked=True, times=np.array([SECONDS]))


def _minutes(seeds: range, linked: bool, times: np.ndarray) -> pd.DataFrame:
    asked = [minute.call(strategy, PROBLEM, seed, linked, times.tolist()) for seed in seeds for strategy in STRATEGIES]
    return study.execute(asked)


def at_times(frame: pd.DataFrame, times: Sequence[float]) -> pd.DataFrame:
    """Mean accuracy at some times with half of its 95% interval."""
    shown = frame[frame["seconds"].isin(times)].groupby(["method", "seconds"], sort=False)["accuracy"]
    return shown.apply(lambda values: _with_interval(100 * values)).unstack(sort=False)


def paired(frame: pd.DataFrame, ours: str, rival: str) -> str:
    """The gain of one strategy over another after the last second, seed by seed."""
    last = frame[frame["seconds"] == frame["seconds"].max()].pivot(index="seed", columns="method", values="accuracy")
    mean, low, high = mean_and_interval(list(100 * (last[ours] - last[rival])))
    return f"{ours}, minus {rival}: {mean:+.1f} points after a minute, {low:+.1f} to {high:+.1f}"


def _with_interval(values: pd.Series) -> str:
    mean, low, _ = mean_and_interval(list(values))
    return f"{mean:.1f} ± {mean - low:.1f}"


def late_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The same as means with half of their 95% intervals, and the paired difference to leaving out the late."""
    rows, columns = {}, ["8 and 9", "the others"]
    rival = frame[frame["method"] == "1 s, leave out the late"].set_index("seed")["8 and 9"]
    for name, runs in frame.groupby("method", sort=False):
        rows[name] = {column: _with_interval(100 * runs[column]) for column in columns}
        gain = 100 * (runs.set_index("seed")["8 and 9"] - rival)
        rows[name]["8 and 9, gain over leaving out"] = "" if not gain.any() else _with_interval(gain)
    return pd.DataFrame(rows).T.rename_axis("accuracy after a minute, %")


def round_seconds(invited: Sequence[int], rounds: int = 2000) -> pd.DataFrame:
    """Mean seconds of a round that waits for all, with and without silent devices, and that takes the first 75%."""
    rows = {}
    for many in invited:
        devices = [clock.draw_devices(many, seed) for seed in range(rounds)]
        drawn = [each.answers(1) for each in devices]
        loud = [replace(each, silent=0.0).answers(1) for each in devices]
        everybody, enough = np.arange(many), clock.first_of(max(1, 3 * many // 4))
        rows[many] = {
            "wait for all, nobody is silent": np.mean([clock.wait_for_all(everybody, each).seconds for each in loud]),
            "wait for all": np.mean([clock.wait_for_all(everybody, each).seconds for each in drawn]),
            "take the first three quarters": np.mean([enough(everybody, each).seconds for each in drawn]),
        }
    return pd.DataFrame(rows).rename_axis("seconds of a round, devices invited").round(2)


def answers_log(seed: int) -> pd.DataFrame:
    """The answers of one asynchronous trial: when each was begun and ended, and the device's mean seconds."""
    one = trial(seed)
    tasks = one.asynchronous(MIXING, SECONDS).tasks
    frame = pd.DataFrame(tasks, columns=["begun", "ended", "client"])
    return frame.assign(seconds=one.devices.seconds[frame["client"]])
