"""The studies of the FedGS selection notebook: problems as FedGS meets them, and what each sampler makes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from time import perf_counter

import numpy as np
import pandas as pd

from fedlib import federate, selection
from fedlib.algorithms import create
from fedlib.judging.checks import audit
from fedlib.problem.federation import Federation
from fedlib.problem.queues import SampleQueues
from fedlib.problem.streams import generator
from fedlib.selection import Selection, warm_up

OURS = "Best swap (ours)"
INITIALISERS = {"Zero": "zero", "Random": "random", "MPInv": "pinv"}
GOOD = ["Brute", "GA", "GBP-CS"]  # the samplers that the paper compares in time
Sampler = Callable[..., Selection]  # (A, y, size, rng, watch)


@dataclass(frozen=True)
class Park:
    """An industrial park: M factories of K^m devices; an iteration takes L of each, L_rnd of them at random."""

    data_set: str
    factories: int = 10  # M
    devices: int = 35  # K^m
    selected: int = 10  # L
    presampled: int = 2  # L_rnd
    batch: int = 32  # n

    @property
    def size(self) -> int:
        """L_sel."""
        return self.selected - self.presampled

    @property
    def samples(self) -> int:
        """nL, samples of a super node."""
        return self.batch * self.selected

    @property
    def options(self) -> dict:
        """What the algorithm FedGS wants to know."""
        chosen = {"devices": self.selected, "presampled": self.presampled, "batch": self.batch}
        return chosen | {"factories": self.factories}

    def federation(self, seed: int) -> Federation:
        """The devices: one writer each, dealt to factories at random."""
        return federate(self.data_set, "by_writer", self.factories * self.devices, network="cnn_leaf", seed=seed)


@dataclass(frozen=True, eq=False)
class Problems:
    """What the M factories have to solve in the first iteration of FedGS with this seed."""

    park: Park
    seed: int
    counts: np.ndarray  # (M, K^m, F), classes of each device's next batch
    real: np.ndarray  # P_real

    @cached_property
    def drawn(self) -> np.ndarray:
        """(M, K^m) devices in random order; the first L_rnd are the pre-sampled ones, the others are sorted."""
        order = np.tile(np.arange(self.park.devices), (self.park.factories, 1))
        order = generator(self.seed, "presampled").permuted(order, axis=1)
        order[:, self.park.presampled :].sort(axis=1)
        return order

    @cached_property
    def batches(self) -> np.ndarray:
        return np.take_along_axis(self.counts, self.drawn[:, :, None], axis=1)

    @property
    def presampled(self) -> np.ndarray:
        """b, Eq. (11)."""
        return self.batches[:, : self.park.presampled].sum(axis=1)

    @property
    def A(self) -> np.ndarray:
        return np.swapaxes(self.batches[:, self.park.presampled :], 1, 2)

    @property
    def y(self) -> np.ndarray:
        return selection.target(self.real, self.park.samples, self.presampled)

    def divergence(self, distance: np.ndarray) -> np.ndarray:
        """||P_t^m - P_real|| = ||Ax - y|| / (nL), Eq. (6)."""
        return np.asarray(distance) / self.park.samples


def first_problems(park: Park, seed: int) -> Problems:
    """The batches that the devices' streams bring first."""
    federation = park.federation(seed)
    streams = SampleQueues(federation, park.batch, np.zeros(federation.clients, dtype=np.int64))
    counts = streams.counts.reshape(park.factories, park.devices, -1)
    return Problems(park, seed, counts, selection.real_distribution(federation.class_counts.numpy()))


def iid_divergence(real: np.ndarray, samples: int) -> float:
    """Root of the mean squared divergence of so many samples drawn independently from the real distribution itself."""
    return float(np.sqrt((1 - np.sum(real * real)) / samples))


# Initialisers: Fig. 3


def initialiser_curves(problems: Problems) -> pd.DataFrame:
    """Divergence after each iteration of GBP-CS, one row each; the warm-up counts as iterations."""
    A, y, size = problems.A, problems.y, problems.park.size
    frames = []
    for name, init in INITIALISERS.items():
        path = selection.gbp_cs(A, y, size, init, generator(problems.seed, "initialiser")).distances
        if init == "zero":
            path = np.concatenate([warm_up(A.astype(float), y, size)[1][:, :-1], path], axis=1)
        frames += [_curve(problems, name, factory, own) for factory, own in enumerate(path)]
    return pd.concat(frames, ignore_index=True)


def _curve(problems: Problems, name: str, factory: int, path: np.ndarray) -> pd.DataFrame:
    """One search; the distances that a group repeats after its end are dropped."""
    earlier = np.flatnonzero(path != path[-1])
    steps = earlier[-1] + 2 if len(earlier) else 1
    about = {"seed": problems.seed, "factory": factory + 1, "initialiser": name}
    return pd.DataFrame({**about, "iteration": range(steps), "divergence": problems.divergence(path[:steps])})


def initialiser_ends(curves: pd.DataFrame, compared: pd.DataFrame) -> pd.DataFrame:
    """One row a problem and initialiser, and one for its optimum: final divergence and iterations."""
    last = curves.groupby(["seed", "factory", "initialiser"], sort=False).tail(1)
    last = last.rename(columns={"iteration": "iterations"})
    optimum = compared[compared["sampler"] == "Brute"].assign(initialiser="Brute")
    columns = ["seed", "factory", "initialiser", "divergence", "iterations"]
    return pd.concat([last, optimum], ignore_index=True)[columns].assign(point="final")


def initialiser_times(problems: Problems, repeats: int = 20) -> pd.DataFrame:
    """Milliseconds of one selection with each initialiser: the least over repeats, the median over factories."""
    rows = []
    for name, init in INITIALISERS.items():
        least = [
            min(_seconds(lambda: selection.gbp_cs(A, y, problems.park.size, init, rng)) for _ in range(repeats))
            for A, y in zip(problems.A, problems.y, strict=True)
            for rng in [generator(problems.seed, "initialiser")]
        ]
        about = {"seed": problems.seed, "initialiser": name, "point": "median"}
        rows.append(about | {"milliseconds": 1000 * np.median(least)})
    return pd.DataFrame(rows)


def _seconds(call: Callable[[], object]) -> float:
    started = perf_counter()
    call()
    return perf_counter() - started


# Samplers: Fig. 4


def samplers(polished: int) -> dict[str, Sampler]:
    """The paper's six in its order, and ours; `polished` goes to the Bayesian one."""
    return {
        "Random": selection.random,
        "MC": selection.monte_carlo,
        "Brute": _without_chance(selection.brute),
        "Bayesian": partial(selection.bayesian, polished=polished),
        "GA": selection.genetic,
        "GBP-CS": _without_chance(selection.gbp_cs),
        OURS: _without_chance(selection.best_swap),
    }


def _without_chance(sampler: Sampler) -> Sampler:
    return lambda A, y, size, rng, watch=None: sampler(A, y, size, watch=watch)


def warm(chosen: dict[str, Sampler]) -> None:
    """Run every sampler once on a small problem, so that imports and caches are not timed."""
    A = np.arange(24.0).reshape(4, 6) % 5
    for sampler in chosen.values():
        sampler(A, A.sum(axis=1) / 2, 3, generator(0, "warm"))


def compare(problems: Problems, chosen: dict[str, Sampler]) -> pd.DataFrame:
    """One row a factory and sampler: divergence, and the seconds that one selection took."""
    warm(chosen)
    rows = []
    for factory, (A, y) in enumerate(zip(problems.A, problems.y, strict=True), start=1):
        for name, sampler in chosen.items():
            started = perf_counter()
            found = sampler(A, y, problems.park.size, generator(problems.seed, f"sampler {name}", 0, factory))
            seconds = perf_counter() - started
            about = {"seed": problems.seed, "factory": factory, "sampler": name}
            divergence = float(problems.divergence(found.distance))
            rows.append(about | {"divergence": divergence, "seconds": seconds})
    return pd.DataFrame(rows)


def over_factories(frame: pd.DataFrame) -> pd.DataFrame:
    """The divergences with point "factory", and each seed's and sampler's lowest and highest over the factories."""
    frame = frame.drop(columns="seconds")
    grouped = frame.groupby(["seed", "sampler"], sort=False)["divergence"]
    ends = [grouped.agg(how).reset_index().assign(point=point) for point, how in POINTS.items()]
    return pd.concat([frame.assign(point="factory"), *ends], ignore_index=True)


POINTS = {"lowest": "min", "highest": "max"}


def times(frame: pd.DataFrame) -> pd.DataFrame:
    """For each seed and sampler the median seconds of one selection."""
    return frame.groupby(["seed", "sampler"], sort=False)["seconds"].median().reset_index().assign(point="median")


def gains(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean gap of each sampler to the optimum, and in how many of the problems it finds it."""
    wide = frame.pivot_table(index=["seed", "factory"], columns="sampler", values="divergence", sort=False)
    gap = wide.sub(wide["Brute"], axis=0)
    shown = pd.DataFrame({"mean gap": gap.mean(), "largest gap": gap.max(), "optimum found": (gap < 1e-12).sum()})
    return shown.reindex(frame["sampler"].unique()).assign(problems=len(gap))


def traces(problems: Problems, chosen: dict[str, Sampler], factory: int = 0) -> pd.DataFrame:
    """Best divergence so far against elapsed seconds, one row whenever a sampler reports, for one factory."""
    warm(chosen)
    about, frames = {"seed": problems.seed, "factory": factory + 1}, []
    for name, sampler in chosen.items():
        seen: list[tuple[float, float]] = []
        rng, started = generator(problems.seed, f"sampler {name}", 0, factory + 1), perf_counter()
        sampler(
            problems.A[factory],
            problems.y[factory],
            problems.park.size,
            rng,
            lambda d: seen.append((perf_counter() - started, float(problems.divergence(d)))),
        )
        frames.append(pd.DataFrame(seen, columns=["seconds", "divergence"]).assign(**about, sampler=name))
    return pd.concat(frames, ignore_index=True)


def arrivals(trace: pd.DataFrame) -> pd.DataFrame:
    """For each sampler where and when it ends, and the seconds until it is as good as GBP-CS (infinite: never)."""
    level = trace[trace["sampler"] == "GBP-CS"]["divergence"].iloc[-1]
    rows = []
    for name, own in trace.groupby("sampler", sort=False):
        last, good = own.iloc[-1], own[own["divergence"] <= level]
        about = {column: last[column] for column in ("seed", "factory", "divergence", "seconds")}
        rows.append({"sampler": name} | about | {"seconds_to_level": good["seconds"].iloc[0] if len(good) else np.inf})
    return pd.DataFrame(rows)


def ends(compared: pd.DataFrame, arrived: pd.DataFrame) -> pd.DataFrame:
    """The final divergences of all problems, with the arrival times of the one that was traced."""
    times = arrived[["seed", "factory", "sampler", "seconds_to_level"]]
    return compared.merge(times, how="left", on=["seed", "factory", "sampler"]).assign(point="final")


def groups_at_once(problems: Problems, counts: list[int], repeats: int = 5) -> pd.DataFrame:
    """Microseconds a group when many groups are selected by one call; the problems are repeated as often as needed."""
    rows = []
    for groups in counts:
        which = np.arange(groups) % problems.park.factories
        A, y = problems.A[which], problems.y[which]
        row = {"groups": groups}
        for name, search in (("GBP-CS", selection.gbp_cs), (OURS, selection.best_swap)):
            row[name] = min(_seconds(lambda: search(A, y, problems.park.size)) for _ in range(repeats)) / groups * 1e6
        rows.append(row)
    return pd.DataFrame(rows)


def training_share(park: Park, network: dict, iterations: int, seed: int) -> pd.DataFrame:
    """Milliseconds of one iteration of FedGS in all factories, and of the selection in it."""
    clients = park.factories * park.devices
    federation = federate(park.data_set, "by_writer", clients, network="cnn_leaf", seed=seed, network_options=network)
    method = create("fedgs", **park.options, iterations=iterations)
    state = method.round(federation, method.init(federation), 1)
    streams = SampleQueues(federation, park.batch, state["taken"].numpy())
    whole = _seconds(lambda: method.round(federation, state, 2)) / iterations
    own = np.median([_seconds(lambda: method.select(federation, streams.counts, t)) for t in range(10)])
    row = {"groups": park.factories, "iteration, ms": 1e3 * whole, "selection, ms": 1e3 * own, "share": own / whole}
    return pd.DataFrame([row | {"weights": len(federation.start)}])


# Audits


def literal_stop(limit: int = 100) -> pd.DataFrame:
    """Algorithm 2 as printed, `until d_s > d_{s-1}`, on three devices of which two are alike."""
    A, y, x = np.array([[2.0, 2.0, 0.0], [0.0, 0.0, 2.0]]), np.array([2.0, 2.0]), np.array([1.0, 0.0, 0.0])
    swaps, d = 0, np.linalg.norm(A @ x - y)
    while swaps < limit:
        g = A.T @ (A @ x - y) / d
        enters, leaves = int(np.argmin(np.where(x == 0, g, np.inf))), int(np.argmax(np.where(x == 1, g, -np.inf)))
        x[enters], x[leaves] = 1, 0
        before, d, swaps = d, np.linalg.norm(A @ x - y), swaps + 1
        if d > before:
            break
    found = f"still swapping after {swaps}" if d <= before else f"stops after {swaps}"
    return audit(("swaps of one device among three", "finitely many", found, d > before))


def chances(park: Park, seed: int, iterations: int) -> pd.DataFrame:
    """How often each device takes part in so many iterations of FedGS, by GBP-CS and, for comparison, at random."""
    federation = park.federation(seed)
    frames = []
    for name, presampled in (("GBP-CS", park.presampled), ("Random", park.selected)):
        method = create("fedgs", **park.options | {"presampled": presampled})
        streams = SampleQueues(federation, park.batch, np.zeros(federation.clients, dtype=np.int64))
        for t in range(iterations):
            chosen, _ = method.select(federation, streams.counts, t)
            streams.advance(np.concatenate(chosen))
        about = {"sampler": name, "iterations": iterations, "seed": seed}
        frames.append(pd.DataFrame({**about, "device": range(federation.clients), "times": streams.taken}))
    return pd.concat(frames, ignore_index=True)


def equal_chance(taken: pd.DataFrame, park: Park) -> pd.DataFrame:
    """Spread of the devices' shares against that of a fair draw: 1 is fair, within 0.3."""
    p = park.selected / park.devices
    rows = []
    for name, own in taken.groupby("sampler", sort=False):
        t = own["iterations"].iloc[0]
        spread = float(np.mean((own["times"] - t * p) ** 2) / (t * p * (1 - p)))
        quantity = f"{name}: variance over that of a fair draw, {t} iterations"
        rows.append((quantity, "1", f"{spread:.2f}", abs(spread - 1) < 0.3))
    return audit(*rows)


def default_initialiser() -> pd.DataFrame:
    """Fig. 3 ends GBP-CS with MPInv, the default, at 0.030, Fig. 4c at 0.029; the optimum is 0.028 in both."""
    return audit(("divergence of GBP-CS with MPInv, Fig. 3 and Fig. 4c", 0.030, 0.029, False))


def much_faster(times: pd.DataFrame, least: float = 1.5) -> pd.DataFrame:
    """Zero's time over MPInv's; the factor is far enough from both to be no matter of noise."""
    milliseconds = times.groupby("initialiser")["milliseconds"].median()
    factor = milliseconds["Zero"] / milliseconds["MPInv"]
    quantity = "time from zero over time from the pseudo-inverse"
    return audit((quantity, f"at least {least:g}", f"{factor:.2f}", factor >= least))


def genetic_slower(times: pd.DataFrame, least: float = 20.0) -> pd.DataFrame:
    """The genetic sampler's time over that of GBP-CS."""
    seconds = times.groupby("sampler")["seconds"].median()
    factor = seconds["GA"] / seconds["GBP-CS"]
    return audit(("time of GA over time of GBP-CS", 66, f"{factor:.0f}", factor >= least))
