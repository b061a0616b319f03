"""Lesson 5, choosing who takes part: two worlds of clients, selectors, a tournament for them and a student's; checks.

A selector is a function `(round, history, rng) -> clients`. It knows what a server may know: the class counts that the
clients have announced, who took part so far and with which reward. All entrants are such functions; a student's is one
more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib import engine, selection
from fedlib.algorithms.algorithm import State, shares
from fedlib.algorithms.fedavg import FedAvg
from fedlib.algorithms.randomclients import sizes
from fedlib.course.exercise import NotYet, exercise, filled, require
from fedlib.problem import skew
from fedlib.problem.federation import Federation, federate
from fedlib.problem.streams import generator
from fedlib.report import plots
from fedlib.report.show import png
from fedlib.runs.simulation import Progress, simulate
from fedlib.selection import bandit, skewness

CLIENTS, SIZE = 30, 5  # clients; participants per round
ROUNDS, SEEDS = 16, range(3)
WORK = {"lr": 0.1, "batch": 10, "epochs": 3}
COMMON = {"data_set": "mnist", "clients": CLIENTS, "network": "mlp200", "test_samples": 1000}
WORLDS = {
    "mixed": COMMON
    | {"partitioner": "few_class_skew", "client_samples": 30},  # from even clients to clients of one class
    "all skewed": COMMON
    | {"partitioner": "shards", "per_client": 2, "samples": 30 * CLIENTS},  # two classes, everybody
}  # arguments of `federate`
COLOURS = seaborn.color_palette("colorblind")


@lru_cache
def world(name: str, seed: int = 0) -> Federation:
    """One of the two federations."""
    return federate(**WORLDS[name], seed=seed)


# What a selector knows, and what it must answer


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


# The entrants


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


# Mixtures and how far they are from everybody's


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


def worlds_picture() -> tuple[Figure, pd.DataFrame]:
    """Who holds what in both worlds."""
    fig, panels = plt.subplots(len(WORLDS), 1, figsize=(10, 6.2), layout="constrained")
    rows = {}
    for axes, name in zip(panels, WORLDS, strict=True):
        counts = counts_of(name)
        plots.heatmap(counts, ax=axes)
        axes.set(title=name, ylabel="digit")
        held = skew.effective_classes(counts)
        rows[name] = {"fewest": held.min(), "mean": held.mean(), "most": held.max()}
    return fig, pd.DataFrame(rows).T.round(1).rename_axis("digits a client (effective number)")


def groups_picture(counts: np.ndarray, groups: dict[str, np.ndarray]) -> tuple[Figure, pd.DataFrame]:
    """The mixtures of some groups beside everybody's."""
    fig, panels = plt.subplots(1, len(groups), figsize=(4.2 * len(groups), 3.2), sharey=True, layout="constrained")
    rows = {}
    for axes, (name, group), colour in zip(panels, groups.items(), COLOURS, strict=False):
        _mixture(axes, counts, group, colour)
        members = ", ".join(str(int(client)) for client in sorted(group))
        rows[name] = {"clients": members, "distance": mixture_distance(counts, group)}
        axes.set_title(f"{name}: {rows[name]['distance']:.2f}")
    panels[0].set_ylabel("share of the group's samples")
    return fig, pd.DataFrame(rows).T.rename_axis("group").assign(
        distance=lambda t: t["distance"].astype(float).round(3)
    )


def _mixture(axes: Axes, counts: np.ndarray, group, colour) -> None:
    own, classes = counts[list(group)].sum(axis=0), counts.shape[1]
    axes.bar(range(classes), own / max(1, own.sum()), color=colour)
    real = selection.real_distribution(counts)
    axes.step(
        np.arange(classes + 1) - 0.5, [*real, real[-1]], where="post", color="black", linewidth=1.5, linestyle="--"
    )
    axes.set(xlabel="digit", xticks=range(classes), ylim=(0, 0.45))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


def searches(counts: np.ndarray, size: int = SIZE) -> dict[str, np.ndarray]:
    """The groups that the searches find when all members are free, and the best there is."""
    y = selection.target(
        selection.real_distribution(counts), counts.sum(axis=1).mean() * size, np.zeros(counts.shape[1])
    )
    found = {"GBP-CS": selection.gbp_cs, "best swap": selection.best_swap, "best of all": selection.brute}
    return {name: search(counts.T, y, size).devices for name, search in found.items()}


def landscape_picture(draws: int = 2000, seed: int = 0) -> tuple[Figure, pd.DataFrame]:
    """Distances of random groups as a histogram, those of the searches as lines, in both worlds."""
    fig, panels = plt.subplots(1, len(WORLDS), figsize=(11, 3.6), layout="constrained")
    rows = {}
    for axes, name in zip(panels, WORLDS, strict=True):
        counts, rng = counts_of(name), generator(seed, "landscape")
        drawn = [mixture_distance(counts, rng.choice(len(counts), SIZE, replace=False)) for _ in range(draws)]
        axes.hist(drawn, 40, color="0.8")
        found = {way: mixture_distance(counts, group) for way, group in searches(counts).items()}
        for (way, distance), colour, dash in zip(found.items(), COLOURS, ("-", "--", ":"), strict=False):
            axes.axvline(distance, color=colour, linestyle=dash, linewidth=2.2, label=way)
        axes.set(title=name, xlabel="distance of the group's mixture", xlim=(0, None), yticks=[])
        rows[name] = {"random, mean": np.mean(drawn), f"best of {draws} random": min(drawn)} | found
    panels[0].set_ylabel(f"{draws} random groups")
    panels[1].legend(loc="upper right", fontsize=9)
    return fig, pd.DataFrame(rows).T.round(3).rename_axis("distance")


def by_hand(name: str = "all skewed", clients: int = 12) -> ipywidgets.VBox:
    """Choose a group with the mouse; the bars follow, and the best group of that size can be looked up."""
    counts = counts_of(name)[:clients]
    box = ipywidgets.SelectMultiple(options=range(clients), value=(0, 1, 2, 3), rows=clients, description="clients")
    words, picture = ipywidgets.HTML(), ipywidgets.Image(format="png")

    def redraw(change: object = None) -> None:
        fig, words.value = hand_picture(counts, box.value)
        picture.value = png(fig)

    box.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([ipywidgets.HBox([box, picture]), words])


def hand_picture(counts: np.ndarray, group: tuple[int, ...]) -> tuple[Figure, str]:
    """Who holds what, the group's mixture, and a sentence that compares it with the best group of its size."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", width_ratios=[1.5, 1])
    plots.heatmap(counts, ax=left)
    left.set_ylabel("digit")
    _mixture(right, counts, group, COLOURS[0])
    right.set_title(f"your group, and all {len(counts)} (dashed)")
    if not group:
        return fig, "Choose somebody (Ctrl or Shift and click for several)."
    best = mixture_distance(counts, searches(counts, len(group))["best of all"])
    mine = mixture_distance(counts, list(group))
    count = f"{len(group)} client{'s are' if len(group) > 1 else ' is'}"
    return fig, f"Your {count} {mine:.3f} away from everybody's mixture; the best group of that size {best:.3f}."


# Rewards and duels


def alphas(name: str, seed: int = 0) -> np.ndarray:
    """The true skewness of every client: 0 even, 1 a single class."""
    return skewness.true_alphas(world(name, seed))


def after(name: str, rounds: int, selector: Selector = at_random, seed: int = 0) -> State:
    """The state after some rounds with a selector."""
    method, federation = Invited(selector=selector, **WORK), world(name, seed)
    progress = Progress(state=method.init(federation))
    if rounds:
        simulate(method, federation, rounds, every=rounds, progress=progress, bar=False)
    assert progress.state is not None  # set above
    return progress.state


def rewards_picture(moments: tuple[int, ...], name: str = "mixed") -> tuple[Figure, pd.DataFrame]:
    """Reward against true skewness of all clients, at models after these numbers of rounds."""
    federation, truth = world(name), alphas(name)
    everybody = np.arange(federation.clients)
    fig, panels = plt.subplots(1, len(moments), figsize=(5 * len(moments), 3.6), layout="constrained")
    rows = {}
    for axes, rounds in zip(panels, moments, strict=True):
        found = skewness.insights(federation, after(name, rounds)["weights"], everybody, WORK["lr"])
        rewards = -skewness.estimates(found, sizes(federation, everybody))
        axes.scatter(truth, rewards, color=COLOURS[0])
        axes.set(title=f"after {rounds} rounds", xlabel="true skewness $\\alpha$ of the client", ylabel="reward $-Q$")
        order = pd.Series(truth).corr(pd.Series(rewards), method="spearman")
        lowest, highest = rewards.min(), rewards.max()
        rows[f"after {rounds} rounds"] = {"lowest reward": lowest, "highest": highest, "rank correlation": order}
    return fig, pd.DataFrame(rows).T.round(2)


def bandit_picture(rounds: int) -> tuple[Figure, pd.DataFrame]:
    """Whom the bandit invites over the rounds, in both worlds: the skewness of the participants."""
    fig, panels = plt.subplots(1, len(WORLDS), figsize=(11, 3.6), sharey=True, layout="constrained")
    rows = {}
    for axes, name in zip(panels, WORLDS, strict=True):
        truth = alphas(name)
        chosen = truth[after(name, rounds, duelling_bandit)["chosen"].numpy()]  # (rounds, size)
        when = np.repeat(np.arange(1, rounds + 1), SIZE)
        axes.scatter(when, chosen.ravel(), s=14, color=COLOURS[0], alpha=0.6, label="a participant")
        axes.plot(range(1, rounds + 1), chosen.mean(axis=1), color=COLOURS[3], label="mean of the round")
        axes.axhline(truth.mean(), color="0.3", linestyle=":", label="mean of all clients")
        axes.set(title=name, xlabel="round", ylim=(-0.03, 1.03))
        half = rounds // 2
        rows[name] = {
            "all clients": truth.mean(),
            "first half": chosen[:half].mean(),
            "second half": chosen[half:].mean(),
        }
    panels[0].set_ylabel("skewness $\\alpha$")
    panels[0].legend(fontsize=9, loc="lower left")
    return fig, pd.DataFrame(rows).T.round(2).rename_axis("mean skewness")


# The tournament


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


@lru_cache
def entrant(name: str) -> pd.DataFrame:
    """All games of an entrant of ours; played once per session, so that only the student's are played again."""
    return games(ENTRANTS[name]).assign(selector=name)


def games(selector: Selector) -> pd.DataFrame:
    """A selector in both worlds with all seeds."""
    return pd.concat([play(selector, name, seed) for name in WORLDS for seed in SEEDS], ignore_index=True)


def tournament(mine: Selector | None = None) -> tuple[Figure, pd.DataFrame]:
    """Our entrants and, once it is written and answers as it should, the student's; says so if that is missing."""
    frames = [entrant(name) for name in ENTRANTS]
    if mine is None or not filled(mine):
        print("Your selector is still to be written: the tournament starts without it.")
    else:
        try:
            frames.append(games(mine).assign(selector=YOURS))
        except Exception as error:
            print(f"Your selector had to leave the tournament: {type(error).__name__}: {error}")
    frame = pd.concat(frames, ignore_index=True)
    return tournament_picture(frame), standings(frame)


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


def tournament_picture(frame: pd.DataFrame) -> Figure:
    """Accuracy over rounds in both worlds, a line a selector, the student's in black."""
    fig, panels = plt.subplots(1, len(WORLDS), figsize=(12, 4.2), sharey=True, layout="constrained")
    dashes = ["-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1))]
    for axes, name in zip(panels, WORLDS, strict=True):
        for place, (selector, rows) in enumerate(frame[frame["world"] == name].groupby("selector", sort=False)):
            mean = rows.groupby("round")["accuracy"].mean()
            look = {"color": COLOURS[place], "linestyle": dashes[place % 6], "linewidth": 1.8}
            if selector == YOURS:
                look = {"color": "black", "linewidth": 2.2, "marker": "D", "markersize": 4}
            axes.plot(mean.index, mean, label=selector, **look)
        axes.set(title=name, xlabel="communication round", xlim=(0, ROUNDS), ylim=(0, 0.9))
    panels[0].set_ylabel("test accuracy, mean over seeds")
    panels[0].yaxis.set_major_formatter(PercentFormatter(1))
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return fig


# The checks

SMALL = np.array([[6, 0, 0], [0, 1, 1], [3, 3, 6]])  # three clients, three classes


@exercise("5.1", "The mixture of a group")
def mixture(answer: Callable) -> None:
    require(answer is not None, "Add up the rows of counts that belong to the group, then divide by the total.")
    require(answer(SMALL, [0, 1]) is not None, "Your function returns nothing: end it with return.")
    found = np.asarray(answer(SMALL, [0, 1]), dtype=float)
    asked = f"Clients with {SMALL[0].tolist()} and {SMALL[1].tolist()} samples"
    require(
        found.shape == (3,),
        f"Three classes, three shares. Yours have the shape {found.shape}: add up over the group's clients (axis=0).",
    )
    require(not np.allclose(found, [6, 1, 1]), f"{asked}: you have the counts, 6, 1 and 1. Divide by their sum.")
    require(
        not np.allclose(found, [1 / 2, 1 / 4, 1 / 4]),
        f"{asked}: you average the clients' own shares, so that two "
        "samples weigh as much as six. Pool the samples first.",
    )
    require(
        not np.allclose(found, [0.45, 0.2, 0.35]), "You have everybody's mixture. Only the group counts: counts[group]."
    )
    shown = np.round(found, 3).tolist()
    require(np.allclose(found, [6 / 8, 1 / 8, 1 / 8]), f"{asked} are 6, 1 and 1 of 8 together. You have {shown}.")
    require(
        np.allclose(answer(SMALL, np.array([1, 2])), [3 / 14, 4 / 14, 7 / 14]),
        "It works for the group [0, 1], but not for the array of 1 and 2.",
    )


@exercise("5.2", "How far a group is from everybody")
def distance(answer: Callable) -> None:
    require(answer is not None, "Everybody is a group, too. Subtract the two mixtures, square, add up, take the root.")
    require(answer(SMALL, [0]) is not None, "Your function returns nothing: end it with return.")
    found = answer(SMALL, [0])
    require(np.ndim(found) == 0, f"One number, please. Yours has the shape {np.shape(found)}.")
    right = (0.55**2 + 0.2**2 + 0.35**2) ** 0.5
    require(
        not np.isclose(found, (2 / 3) ** 0.5), "You compare with an even mixture. Everybody together holds 9, 4 and 7."
    )
    require(not np.isclose(found, right**2), "That is the squared distance: take the root.")
    require(
        not np.isclose(found, 1.1), "You add up absolute differences. FedGS squares them, adds up and takes the root."
    )
    require(
        np.isclose(found, right),
        "Client 0 has the shares 1, 0, 0 and everybody 0.45, 0.2, 0.35: the root of "
        f"0.55^2 + 0.2^2 + 0.35^2 is {right:.3f}. You have {found:.3f}.",
    )
    require(np.isclose(answer(SMALL, [0, 1, 2]), 0), "All clients together are at distance 0 from everybody.")


@exercise("5.3", "The next member of the group")
def next_member(answer: Callable) -> None:
    require(
        answer is not None, "Try every client that is not in the group: how far is the group with it? Keep the nearest."
    )
    counts = np.array([[9, 0, 0], [8, 1, 0], [0, 4, 5], [3, 3, 3]])
    found = answer(counts, [0])
    require(found is not None, "Your function returns nothing: end it with return.")
    require(np.ndim(found) == 0 and found == int(found), f"Return one client's number, not {found!r}.")
    require(answer(np.array([[2, 2], [4, 0], [0, 4]]), [0]) != 0, "You invited somebody who is in the group already.")
    require(
        found != 3,
        "You took the client that looks most like everybody by itself. What counts is the GROUP with it: "
        "the group [0] has one class only and needs the other two.",
    )
    require(found != 1, "You took the worst candidate: the smallest distance wins.")
    rng = generator(0, "next member")
    for _ in range(5):
        counts, group = rng.integers(1, 20, (9, 4)), rng.choice(9, 3, replace=False).tolist()
        reached = {each: mixture_distance(counts, [*group, each]) for each in range(9) if each not in group}
        found = int(answer(counts, group))
        require(found in reached, f"Client {found} is in the group {group} already, or does not exist.")
        require(
            np.isclose(reached[found], min(reached.values())),
            f"Somebody else than client {found} would bring the group {group} closer, with counts = {counts.tolist()}.",
        )


@exercise("5.4", "Who wins the duels of a round")
def duels(answer: Callable) -> None:
    require(
        answer is not None,
        "Begin with one client: how many of the rewards are lower than its own, and how many higher?",
    )
    rewards = np.array([-1.0, -3.0, -2.0, -3.0])
    found = answer(rewards)
    require(found is not None, "Your function returns nothing: end it with return.")
    require(isinstance(found, tuple | list) and len(found) == 2, "Return two arrays: `return won, lost`.")
    won, lost = (np.asarray(each) for each in found)
    shapes = f"Yours have the shapes {won.shape} and {lost.shape}."
    require(won.shape == lost.shape == (4,), f"Four clients, four numbers each. {shapes}")
    require(won.tolist() != [0, 2, 1, 2], "The other way round: the higher reward wins, and -1 is higher than -3.")
    require(
        won.tolist() not in ([4, 2, 3, 2], [3, 1, 2, 1]),
        "Equal rewards are no victory, and nobody meets himself in a duel: use >, not >=.",
    )
    require(won.tolist() == [3, 0, 2, 0], f"Rewards -1, -3, -2, -3 win 3, 0, 2 and 0 duels. You have {won.tolist()}.")
    require(
        lost.tolist() == [0, 2, 1, 2], f"Rewards -1, -3, -2, -3 lose 0, 2, 1 and 2 duels. You have {lost.tolist()}."
    )
    more = generator(0, "duels").permutation(6).astype(float)
    require(
        np.array_equal(answer(more)[0], more),
        "With rewards 0 to 5 in any order, everybody wins as many duels as the reward says.",
    )


@exercise("5.5", "Your own selector (open)")
def my_selector(answer: Selector) -> None:
    require(answer is not None, "Begin with a copy of `at_random` and change one thing.")
    for clients, size, rounds in ((12, 3, 0), (12, 3, 4), (7, 2, 2)):
        first, again = (_asked(answer, clients, size, rounds) for _ in range(2))
        require(
            np.array_equal(first, again),
            "Asked twice with the same history and an equal rng, it answered differently: "
            "draw from `rng`, not from np.random, and keep nothing in global variables.",
        )


def _asked(selector: Selector, clients: int, size: int, rounds: int) -> np.ndarray:
    """The selector's choice after some made-up rounds; what is wrong with it becomes the hint."""
    rng = generator(0, "made-up history", rounds, clients)
    chosen = [np.sort(rng.choice(clients, size, replace=False)) for _ in range(rounds)]
    history = History(rng.integers(1, 9, (clients, 4)), size, chosen, [-rng.random(size) for _ in range(rounds)])
    answer = selector(rounds + 1, history, generator(0, "selector", rounds + 1))
    try:
        return checked_choice(answer, clients, size)
    except ValueError as error:
        raise NotYet(f"Round {rounds + 1} ({clients} clients, {size} to choose): {error}.") from None
