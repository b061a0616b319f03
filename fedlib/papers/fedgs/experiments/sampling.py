"""The selection problems of FedGS, and how each sampler solves them: Figs. 3 and 4, who takes part."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from fedlib import selection
from fedlib.algorithms.fedgs import FedGS
from fedlib.problem.federation import Federation, federate
from fedlib.problem.queues import SampleQueues
from fedlib.problem.streams import generator
from fedlib.runs.computations import computation
from fedlib.selection import Selection
from fedlib.selection.gbpcs import growing_start, steepest, swap_until_worse, warm_up

BEST_SWAP = "Best swap (ours)"
PRINTED_INITIALISERS = {"Zero": "zero", "Random": "random", "MPInv": "pinv"}  # the paper's name -> ours
GROWING = "Zero, growing target"  # as the authors' code starts from zero
WAYS = {  # how FedGS picks devices: options of the algorithm, in addition to those of a park
    "GBP-CS": {},
    "GBP-CS, pre-sample once a round": {"presample_each": "round"},
}
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
    def options(self) -> dict[str, Any]:
        """Options of the algorithm FedGS."""
        chosen = {"devices": self.selected, "presampled": self.presampled, "batch": self.batch}
        return chosen | {"factories": self.factories}

    def federation(self, seed: int, network_options: dict[str, int] | None = None) -> Federation:
        """The devices: one writer each, dealt to factories at random."""
        network = {"network": "cnn_leaf", "network_options": network_options}
        return federate(self.data_set, "by_writer", self.factories * self.devices, seed=seed, **network)


@dataclass(frozen=True, eq=False)
class FactoryProblems:
    """The selection problems of the M factories in the first iteration of FedGS with this seed."""

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
        """The counts in the order of `drawn`."""
        return np.take_along_axis(self.counts, self.drawn[:, :, None], axis=1)

    @property
    def presampled(self) -> np.ndarray:
        """b, Eq. (11)."""
        return self.batches[:, : self.park.presampled].sum(axis=1)

    @property
    def A(self) -> np.ndarray:
        """(M, F, K^m - L_rnd), one column per device to choose from."""
        return np.swapaxes(self.batches[:, self.park.presampled :], 1, 2)

    @property
    def y(self) -> np.ndarray:
        """(M, F), what the chosen batches should add up to, Eq. (11)."""
        return selection.target(self.real, self.park.samples, self.presampled)

    def divergence(self, distance: np.ndarray) -> np.ndarray:
        """||P_t^m - P_real|| = ||Ax - y|| / (nL), Eq. (6)."""
        return np.asarray(distance) / self.park.samples


def first_problems(park: Park, seed: int) -> FactoryProblems:
    """The problems posed by the first batches of the devices' streams."""
    federation = park.federation(seed)
    streams = _unused_streams(park, federation)
    counts = streams.counts.reshape(park.factories, park.devices, -1)
    return FactoryProblems(park, seed, counts, selection.real_distribution(federation.class_counts.numpy()))


def _unused_streams(park: Park, federation: Federation) -> SampleQueues:
    return SampleQueues(federation, park.batch, np.zeros(federation.clients, dtype=np.int64))


@computation
def super_node(park: Park, seed: int) -> pd.DataFrame:
    """Class shares in the first factory: the real distribution, one device's batch, and those of all selected devices.

    Besides the pre-sampled devices, the super node consists of others drawn `at random` or chosen `by GBP-CS`.
    """
    problems = first_problems(park, seed)
    A, y = problems.A[0], problems.y[0]
    chosen = {
        "at random": selection.random(A, y, park.size, generator(seed, "super node")),
        "by GBP-CS": selection.gbp_cs(A, y, park.size),
    }
    shares = {"class": range(len(y)), "real": problems.real, "one device": A[:, 0] / park.batch}
    for how, devices in chosen.items():
        shares[how] = (A[:, devices.mask].sum(axis=1) + problems.presampled[0]) / park.samples
    return pd.DataFrame(shares)


# Initialisers: Fig. 3


@computation
def initialiser_curves(park: Park, seed: int) -> pd.DataFrame:
    """Divergence after each iteration of GBP-CS, one row each; the warm-up counts as iterations."""
    problems = first_problems(park, seed)
    A, y, size = problems.A, problems.y, problems.park.size
    frames = [_curve(problems, GROWING, factory, path) for factory, path in enumerate(_from_growing_start(problems))]
    for name, init in PRINTED_INITIALISERS.items():
        paths = selection.gbp_cs(A, y, size, init, generator(problems.seed, "initialiser")).distances
        if init == "zero":
            paths = np.concatenate([warm_up(A.astype(float), y, size)[1][:, :-1], paths], axis=1)
        frames += [_curve(problems, name, factory, path) for factory, path in enumerate(paths)]
    return pd.concat(frames, ignore_index=True)


def _from_growing_start(problems: FactoryProblems) -> np.ndarray:
    """Distances of the search after a warm-up whose target grows; those of the warm-up itself have another target."""
    A, size = problems.A.astype(float), problems.park.size
    start = growing_start(A, problems.y, size, problems.park.batch * problems.real)
    return swap_until_worse(A, problems.y, start, steepest).distances


def _curve(problems: FactoryProblems, name: str, factory: int, path: np.ndarray) -> pd.DataFrame:
    """One search; the distances that a group repeats after its end are dropped."""
    earlier = np.flatnonzero(path != path[-1])
    steps = earlier[-1] + 2 if len(earlier) else 1
    about = {"seed": problems.seed, "factory": factory + 1, "initialiser": name}
    return pd.DataFrame({**about, "iteration": range(steps), "divergence": problems.divergence(path[:steps])})


@computation(clock=("milliseconds",))
def initialiser_times(park: Park, seed: int, repeats: int = 20) -> pd.DataFrame:
    """Milliseconds of one selection with each initialiser: the least over repeats, the median over factories."""
    problems, rows = first_problems(park, seed), []
    for name, init in PRINTED_INITIALISERS.items():
        searches = [
            partial(selection.gbp_cs, A, y, problems.park.size, init, generator(problems.seed, "initialiser"))
            for A, y in zip(problems.A, problems.y, strict=True)
        ]
        milliseconds = 1000 * np.median([_least_seconds(search, repeats) for search in searches])
        rows.append({"seed": problems.seed, "initialiser": name, "point": "median", "milliseconds": milliseconds})
    return pd.DataFrame(rows)


def _least_seconds(call: Callable[[], object], repeats: int) -> float:
    return min(_seconds(call) for _ in range(repeats))


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
        BEST_SWAP: _without_chance(selection.best_swap),
    }


def _without_chance(sampler: Sampler) -> Sampler:
    return lambda A, y, size, rng, watch=None: sampler(A, y, size, watch=watch)


def _prepared(polished: int, names: list[str] | None) -> dict[str, Sampler]:
    """The samplers of these names, or all, after a run on a small problem, so that imports and caches are not timed."""
    chosen = {name: sampler for name, sampler in samplers(polished).items() if names is None or name in names}
    A = np.arange(24.0).reshape(4, 6) % 5
    for sampler in chosen.values():
        sampler(A, A.sum(axis=1) / 2, 3, generator(0, "warm"))
    return chosen


@computation(clock=("seconds",))
def compare_samplers(park: Park, seed: int, polished: int, names: list[str] | None = None) -> pd.DataFrame:
    """One row per factory and sampler: divergence, and the seconds that one selection took."""
    problems, chosen, rows = first_problems(park, seed), _prepared(polished, names), []
    for factory, (A, y) in enumerate(zip(problems.A, problems.y, strict=True), start=1):
        for name, sampler in chosen.items():
            rng, started = generator(problems.seed, f"sampler {name}", 0, factory), perf_counter()
            devices = sampler(A, y, problems.park.size, rng)
            seconds = perf_counter() - started
            about = {"seed": problems.seed, "factory": factory, "sampler": name}
            divergence = float(problems.divergence(devices.distance))
            rows.append(about | {"divergence": divergence, "seconds": seconds})
    return pd.DataFrame(rows)


@computation(clock=("seconds",))
def traces(park: Park, seed: int, polished: int, names: list[str] | None = None) -> pd.DataFrame:
    """Best divergence so far against elapsed seconds, one row whenever a sampler reports, for the first factory."""
    problems = first_problems(park, seed)
    frames = [_trace(problems, name, sampler) for name, sampler in _prepared(polished, names).items()]
    return pd.concat(frames, ignore_index=True)


def _trace(problems: FactoryProblems, name: str, sampler: Sampler) -> pd.DataFrame:
    A, y, size = problems.A[0], problems.y[0], problems.park.size
    reports: list[tuple[float, float]] = []
    rng, started = generator(problems.seed, f"sampler {name}", 0, 1), perf_counter()

    def watch(distance: np.ndarray) -> None:
        reports.append((perf_counter() - started, float(problems.divergence(distance))))

    sampler(A, y, size, rng, watch)
    about = {"seed": problems.seed, "factory": 1, "sampler": name}
    return pd.DataFrame(reports, columns=["seconds", "divergence"]).assign(**about)


@computation(clock=("GBP-CS", BEST_SWAP))
def groups_at_once(park: Park, seed: int, counts: list[int], repeats: int = 5) -> pd.DataFrame:
    """Microseconds per group when one call selects for many groups; the problems are repeated as often as needed."""
    searches = {"GBP-CS": selection.gbp_cs, BEST_SWAP: selection.best_swap}
    problems, rows = first_problems(park, seed), []
    for groups in counts:
        which = np.arange(groups) % problems.park.factories
        call = problems.A[which], problems.y[which], problems.park.size
        took = {name: _least_seconds(partial(search, *call), repeats) for name, search in searches.items()}
        rows.append({"groups": groups} | {name: seconds / groups * 1e6 for name, seconds in took.items()})
    return pd.DataFrame(rows)


# FedGS itself: the time that selecting takes in it, and who takes part


@computation(clock=("iteration, ms", "selection, ms", "share"))
def training_share(park: Park, network: dict[str, int], iterations: int, seed: int) -> pd.DataFrame:
    """Milliseconds of one iteration of FedGS in all factories, and of the selection in it."""
    federation = park.federation(seed, network)
    method = FedGS(**park.options, iterations=iterations)
    state = method.round(federation, method.init(federation), 1)
    streams = SampleQueues(federation, park.batch, state["taken"].numpy())
    whole = _seconds(partial(method.round, federation, state, 2)) / iterations
    selecting = np.median([_seconds(partial(method.select, federation, streams.counts, t)) for t in range(10)])
    times = {"iteration, ms": 1e3 * whole, "selection, ms": 1e3 * selecting, "share": selecting / whole}
    return pd.DataFrame([{"groups": park.factories} | times | {"weights": len(federation.start)}])


@computation
def over_iterations(park: Park, seed: int, iterations: int, round_length: int = 50) -> pd.DataFrame:
    """Selections of FedGS over many iterations, each batch used once, in order: one row per way to pick and iteration.

    `divergence` is the mean over the factories. `round_length` is T, for the way that keeps its pre-sample for a round.
    """
    federation, frames = park.federation(seed), []
    for name in (*WAYS, "Random"):
        means = [divergences.mean() for _, divergences in _iterations(park, federation, name, iterations, round_length)]
        frames.append(
            pd.DataFrame({"seed": seed, "sampler": name, "iteration": range(iterations), "divergence": means})
        )
    return pd.concat(frames, ignore_index=True)


@computation
def participations(park: Park, seed: int, iterations: int, round_length: int = 50) -> pd.DataFrame:
    """How often each device takes part in FedGS over these iterations, by GBP-CS and, for comparison, at random."""
    federation, frames = park.federation(seed), []
    for name in (*WAYS, "Random"):
        times = np.zeros(federation.clients, dtype=np.int64)
        for devices, _ in _iterations(park, federation, name, iterations, round_length):
            times[devices] += 1
        about = {"sampler": name, "iterations": iterations, "seed": seed}
        frames.append(pd.DataFrame({**about, "device": range(federation.clients), "times": times}))
    return pd.concat(frames, ignore_index=True)


def _iterations(
    park: Park, federation: Federation, way: str, iterations: int, round_length: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The devices that take part in each iteration, and the divergence of every factory."""
    chance = replace(park, presampled=park.selected) if way == "Random" else park
    method = FedGS(**chance.options | WAYS.get(way, {}), iterations=round_length)
    streams = _unused_streams(park, federation)
    for t in range(iterations):
        chosen, divergences = method.select(federation, streams.counts, t)
        devices = np.concatenate(chosen)
        streams.advance(devices)
        yield devices, divergences
