"""Lesson 5, choosing who takes part: two worlds of clients, selectors, and a tournament for them.

A selector is a function `(round, history, rng) -> clients`. It knows what a server may know: the class counts that the
clients have announced, who took part so far and with which reward. All entrants are such functions; a student's is one
more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
import torch

from fedlib import engine, selection
from fedlib.algorithms.algorithm import State, shares
from fedlib.algorithms.fedavg import FedAvg
from fedlib.algorithms.randomclients import sizes
from fedlib.problem.federation import Federation, federate
from fedlib.problem.streams import generator
from fedlib.runs.computations import computation
from fedlib.runs.simulation import Progress, simulate
from fedlib.runs.states import state_after
from fedlib.selection import bandit, skewness

CLIENTS, SIZE = 30, 5  # clients; participants per round
ROUNDS, SEEDS = 16, range(5)
WORK = {"lr": 0.1, "batch": 10, "epochs": 3}
COMMON = {"data_set": "mnist", "clients": CLIENTS, "network": "mlp200", "test_samples": 1000}
WORLDS = {
    "mixed": COMMON
    | {"partitioner": "few_class_skew", "client_samples": 30},  # from even clients to clients of one class
    "all skewed": COMMON
    | {"partitioner": "shards", "per_client": 2, "samples": 30 * CLIENTS},  # two classes, everybody
}  # arguments of `federate`


@lru_cache
def world(name: str, seed: int = 0) -> Federation:
    """One of the two federations."""
    return federate(**WORLDS[name], seed=seed)


@dataclass(frozen=True)
class History:
    """What the server knows before a round. Round t is at position t - 1 of the lists."""

    counts: np.ndarray  # (clients, classes): how many samples of each class a client has announced
    size: int  # how many clients to choose
    chosen: list[np.ndarray]  # who took part in each round so far
    rewards: list[np.ndarray]  # and their rewards: minus the estimated skewness, so the higher the better

    @property
    def clients(self) -> int:
        return len(self.counts)


Selector = Callable[[int, History, np.random.Generator], np.ndarray]


def checked_choice(answer, clients: int, size: int) -> np.ndarray:
    """The selector's answer as a sorted array, or a ValueError that says what is wrong with it."""
    if answer is None:
        raise ValueError("the selector returned nothing: end it with `return` and the clients' numbers")
    found = np.asarray(list(answer)) if isinstance(answer, list | tuple | set) else np.asarray(answer)
    if found.dtype == bool:
        raise ValueError("the selector returned a mask of True and False: np.flatnonzero(mask) gives the numbers")
    if found.ndim != 1:
        raise ValueError(f"the selector returned an array of shape {found.shape}: give one row, the clients to invite")
    if len(found) != size:
        raise ValueError(f"the selector returned {len(found)} clients, but history.size = {size} take part in a round")
    if not np.issubdtype(found.dtype, np.integer):
        raise ValueError(
            f"the selector returned numbers of type {found.dtype}: clients are whole numbers, such as 0 or 7"
        )
    if outside := [int(client) for client in found if not 0 <= client < clients]:
        raise ValueError(
            f"there is no client {outside[0]}: history.clients = {clients} are numbered 0 to {clients - 1}"
        )
    if len(twice := np.flatnonzero(np.bincount(found) > 1)):
        raise ValueError(f"the selector invited client {twice[0]} more than once: everybody at most once")
    return np.sort(found)


@dataclass(frozen=True)
class Invited(FedAvg):
    """FedAvg whose participants a selector chooses. What it knows is kept in the state, so runs can be resumed."""

    selector: Selector | None = None
    size: int = SIZE

    def init(self, federation: Federation) -> State:
        nobody = torch.zeros(0, self.size, dtype=torch.int64)
        return super().init(federation) | {"chosen": nobody, "rewards": nobody.double()}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        """Ask the selector; it gets copies, so that it cannot change what it is told."""
        counts = federation.class_counts.numpy().astype(int)
        past = [list(state[name].numpy().copy()) for name in ("chosen", "rewards")]
        assert self.selector is not None, "Invited needs a selector"
        answer = self.selector(round, History(counts, self.size, *past), generator(federation.seed, "selector", round))
        return checked_choice(answer, federation.clients, self.size)

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, weights = self.choose(federation, state, round), state["weights"]
        found = skewness.insights(federation, weights, clients, self.lr)
        rewards = -skewness.estimates(found, sizes(federation, clients))  # FedACS, Eq. (16)
        cohort, average = engine.Cohort(clients, weights), shares(federation, clients)
        trained = engine.train_mean(federation, cohort, self.work(round), round, average).weights
        return {
            "weights": trained,
            "chosen": torch.cat([state["chosen"], torch.as_tensor(clients)[None]]),
            "rewards": torch.cat([state["rewards"], torch.as_tensor(rewards)[None]]),
        }


def at_random(round: int, history: History, rng: np.random.Generator) -> np.ndarray:
    """FedAvg's way: anybody."""
    return rng.choice(history.clients, history.size, replace=False)


def always_the_mildest(round: int, history: History, rng: np.random.Generator) -> np.ndarray:
    """The clients whose own mixtures are closest to even, the same in every round."""
    return np.argsort(_own_skew(history.counts), kind="stable")[: history.size]


def greedy(round: int, history: History, rng: np.random.Generator) -> np.ndarray:
    """By histogram: a first client at random, then always the one that brings the group closest to the overall mix."""
    group = [int(rng.integers(history.clients))]
    while len(group) < history.size:
        others = np.setdiff1d(np.arange(history.clients), group)
        group.append(int(others[np.argmin([mixture_distance(history.counts, [*group, other]) for other in others])]))
    return np.array(group)


def group_selection(search: Callable, round: int, history: History, rng: np.random.Generator) -> np.ndarray:
    """FedGS: one client at random, the others by a search for the group that looks like everybody."""
    first = rng.choice(history.clients, 1)
    others = np.setdiff1d(np.arange(history.clients), first)
    wanted = history.counts.sum(axis=1).mean() * history.size
    real = selection.real_distribution(history.counts)
    y = selection.target(real, wanted, history.counts[first].sum(axis=0))
    found = search(history.counts[others].T, y, history.size - 1)
    return np.concatenate([first, others[found.devices]])


def gbp_cs(round: int, history: History, rng: np.random.Generator) -> np.ndarray:
    """Group selection by FedGS's own search."""
    return group_selection(selection.gbp_cs, round, history, rng)


def best_swap(round: int, history: History, rng: np.random.Generator) -> np.ndarray:
    """Group selection by a search that tries all swaps of two clients."""
    return group_selection(selection.best_swap, round, history, rng)


def duelling_bandit(round: int, history: History, rng: np.random.Generator) -> np.ndarray:
    """FedACS: replay all duels so far, then draw from the pool of those who win most. No class count is looked at."""
    won, lost = duels_so_far(history)
    return bandit.select(won, lost, pool_size(history), history.size, rng)


def pool_size(history: History, tolerance: float = 0.4) -> int:
    """lambda * N of FedACS: how many clients count as good enough."""
    return max(history.size, int(tolerance * history.clients + 0.5))


def duels_so_far(history: History, memory: int = 5, step: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """A and B of FedACS's Algorithm 3 after all rounds: what each client has won and lost, `step` a duel."""
    won, lost, rewards = np.zeros((3, history.clients))
    heard = np.full(history.clients, -np.inf)
    for t, (clients, own) in enumerate(zip(history.chosen, history.rewards, strict=True), start=1):
        rewards[clients], heard[clients] = own, t
        won, lost = bandit.duel(won, lost, rewards, clients, heard >= t - memory, step)
    return won, lost


ENTRANTS: dict[str, Selector] = {
    "random": at_random,
    "always the mildest": always_the_mildest,
    "greedy by histogram": greedy,
    "GBP-CS (FedGS)": gbp_cs,
    "best swap": best_swap,
    "bandit (FedACS)": duelling_bandit,
}
YOURS = "your selector"


def mixture_distance(counts: np.ndarray, group: np.ndarray | list[int]) -> float:
    """|P_group - P_real|: Euclidean distance of the group's class shares to those of all clients together."""
    own = counts[group].sum(axis=0)
    return float(np.sqrt(((own / own.sum() - selection.real_distribution(counts)) ** 2).sum()))


def _own_skew(counts: np.ndarray) -> np.ndarray:
    own = counts / counts.sum(axis=1, keepdims=True)
    return np.abs(own - 1 / counts.shape[1]).sum(axis=1)


def counts_of(name: str, seed: int = 0) -> np.ndarray:
    """Class counts of a world's clients, (clients, classes)."""
    return world(name, seed).class_counts.numpy().astype(int)


def searches(counts: np.ndarray, size: int = SIZE) -> dict[str, np.ndarray]:
    """The groups that the searches find when all members are free, and the best there is."""
    y = selection.target(
        selection.real_distribution(counts), counts.sum(axis=1).mean() * size, np.zeros(counts.shape[1])
    )
    found = {"GBP-CS": selection.gbp_cs, "best swap": selection.best_swap, "best of all": selection.brute}
    return {name: search(counts.T, y, size).devices for name, search in found.items()}


def alphas(name: str, seed: int = 0) -> np.ndarray:
    """The true skewness of every client: 0 even, 1 a single class."""
    return skewness.true_alphas(world(name, seed))


def after(name: str, rounds: int, selector: Selector = at_random, seed: int = 0) -> State:
    """The state after some rounds with a selector."""
    return state_after(Invited(selector=selector, **WORK), world(name, seed), rounds)


@computation
def invited(name: str, federation: dict, rounds: int, seeds: list[int]) -> pd.DataFrame:
    """How much more skewed than the average client of a world the bandit's participants are, seed by seed and round by
    round; `federation` names the data."""
    rows = []
    for seed in seeds:
        truth, chosen = alphas(name, seed), after(name, rounds, duelling_bandit, seed)["chosen"].numpy()
        above = truth[chosen].mean(axis=1) - truth.mean()
        rows += [{"seed": seed, "round": round, "above": value} for round, value in enumerate(above, start=1)]
    return pd.DataFrame(rows)


def play(selector: Selector, name: str, seed: int) -> pd.DataFrame:
    """One selector in one world with one seed: one row per round."""
    method, federation = Invited(selector=selector, **WORK), world(name, seed)
    progress = Progress()
    records = simulate(method, federation, ROUNDS, progress=progress, bar=False)
    assert progress.state is not None  # `simulate` sets it
    chosen, counts = progress.state["chosen"].numpy(), federation.class_counts.numpy()
    distances = [mixture_distance(counts, group) for group in chosen]
    kept = records[["round", "accuracy"]].assign(world=name, seed=seed, clients=len(np.unique(chosen)))
    return kept.assign(distance=np.mean(distances))


def entrant(name: str) -> pd.DataFrame:
    """All games of an entrant of ours."""
    return _kept_games(name, WORLDS)


@computation
def _kept_games(name: str, worlds: dict) -> pd.DataFrame:
    """Played once and kept, so that only the student's games are played again; `worlds` names the data they need."""
    return games(ENTRANTS[name]).assign(selector=name)


def games(selector: Selector) -> pd.DataFrame:
    """A selector in both worlds with all seeds."""
    return pd.concat([play(selector, name, seed) for name in WORLDS for seed in SEEDS], ignore_index=True)


def standings(frame: pd.DataFrame) -> pd.DataFrame:
    """Sorted by points: the mean accuracy over all rounds, worlds and seeds, so that early learning counts, too."""
    played = frame[frame["round"] > 0]
    points = (100 * played.groupby("selector")["accuracy"].mean()).rename("points")
    ends = played[played["round"] == ROUNDS].groupby(["selector", "world"])["accuracy"].agg(["mean", "std"]) * 100
    words = ends.apply(lambda row: f"{row['mean']:.1f} ± {row['std']:.1f}", axis=1).unstack()
    words = words[list(WORLDS)].rename(columns=lambda name: f"end, {name}")
    others = played.groupby("selector").agg({"distance": "mean", "clients": "mean"})
    others.columns = ["distance", "clients"]
    table = pd.concat([points.round(1), words, others.round(2)], axis=1).sort_values("points", ascending=False)
    return table.rename_axis("selector")
