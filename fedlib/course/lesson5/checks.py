"""Lesson 5, choosing who takes part: the checks of its exercises."""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from fedlib.course.exercise import NotYet, exercise, require
from fedlib.course.lesson5.problem import History, Selector, checked_choice, mixture_distance
from fedlib.problem.streams import generator

SMALL = np.array([[6, 0, 0], [0, 1, 1], [3, 3, 6]])  # three clients, three classes


@exercise(
    "5.1",
    "How far a group is from everybody, repaired",
    recipe="Pool the samples before you make shares, for the group and for everybody. Then subtract, square, add up, "
    "take the root.",
)
def distance(answer: Callable) -> None:
    require(answer(SMALL, [0]) is not None, "Your function returns nothing: end it with return.")
    found = answer(SMALL, [0])
    require(np.ndim(found) == 0, f"One number, please. Yours has the shape {np.shape(found)}.")
    right = (0.55**2 + 0.2**2 + 0.35**2) ** 0.5
    held = "Three clients hold 6, 0, 0; 0, 1, 1; and 3, 3, 6 samples"
    require(
        not (np.isclose(found, (2 / 3) ** 0.5) or np.isclose(found, 2 / 3)),
        f"{held}. You compare with an even mixture, but everybody together holds 9, 4 and 7.",
    )
    require(not np.isclose(found, right**2), "That is the squared distance: take the root.")
    require(
        not np.isclose(found, 1.1), "You add up absolute differences. FedGS squares them, adds up and takes the root."
    )
    pair = answer(SMALL, [0, 1])
    mean_shares = np.array([[1, 0, 0], [0, 0.5, 0.5], [0.25, 0.25, 0.5]])
    unpooled = np.linalg.norm(mean_shares[:2].mean(0) - mean_shares.mean(0))
    half_pooled = np.linalg.norm(mean_shares[:2].mean(0) - [0.45, 0.2, 0.35])
    require(
        not (np.isclose(pair, unpooled) or np.isclose(pair, half_pooled)),
        f"{held}. You average the clients' own shares, so two samples weigh as much as six. Pool the samples first.",
    )
    require(
        np.isclose(found, right),
        "Client 0 has the shares 1, 0, 0 and everybody 0.45, 0.2, 0.35: the root of "
        f"0.55^2 + 0.2^2 + 0.35^2 is {right:.3f}. You have {found:.3f}.",
    )
    require(np.isclose(answer(SMALL, [0, 1, 2]), 0), "All clients together are at distance 0 from everybody.")
    rng = generator(2, "course check")
    for _ in range(4):
        counts, group = rng.integers(0, 9, (7, 5)) + 1, rng.choice(7, 3, replace=False).tolist()
        right, found = mixture_distance(counts, group), answer(counts, np.array(group))
        require(np.isclose(found, right), f"Group {group} of seven clients is {right:.3f} away, not {found:.3f}.")


@exercise(
    "5.2",
    "How far random groups are",
    recipe="The mean of k draws without replacement from n vectors whose mean is zero has the mean square "
    "(mean of the squares) / k * (n - k) / (n - 1). Try k = 1 and k = n.",
)
def random_distance(answer: Callable) -> None:
    alone = np.array([0.2, 0.4, 0.4, 0.6, 0.9])
    square = float((alone**2).mean())
    one = answer(alone, 1)
    require(np.ndim(one) == 0, f"One number, please. Yours has the shape {np.shape(one)}.")
    require(not np.isclose(one, alone.mean()), "It is the *squares* whose mean is wanted: square first, then the mean.")
    require(not np.isclose(one, square**0.5), "Return the mean of the squared distances, without the root.")
    require(
        np.isclose(one, square), f"A group of one is a random client: the mean square is {square:.3f}, not {one:.3f}."
    )
    require(np.isclose(answer(alone, 5), 0), "The group of all clients is everybody: its distance is 0.")
    two = float(answer(alone, 2))
    require(not np.isclose(two, square / 2), "Division by k alone would draw clients that may come twice.")
    require(not np.isclose(two, square / 2**0.5), "Mean squares fall with k, not with its root.")
    require(not np.isclose(two, square / 2 * 3 / 5), "Nearly: for k = 1 the factor must be 1. Try (n - k) / (n - 1).")
    rng = generator(3, "course check")
    for clients, size in ((6, 2), (7, 3), (8, 6)):
        shares = rng.dirichlet(np.ones(4), clients)
        away = shares - shares.mean(0)
        groups = [away[list(group)].mean(0) for group in combinations(range(clients), size)]
        right = float((np.array(groups) ** 2).sum(1).mean())
        found = float(answer(np.sqrt((away**2).sum(1)), size))
        told = f"Over all groups of {size} of {clients} clients the mean square is {right:.4f}, you have {found:.4f}."
        require(np.isclose(found, right), told)


@exercise(
    "5.3",
    "The next member of the group",
    recipe="Try every client that is not in the group: how far is the group with it? Keep the nearest.",
)
def next_member(answer: Callable) -> None:
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


@exercise(
    "5.4",
    "Who wins the duels of a round",
    recipe="Begin with one client: how many of the rewards are lower than its own, and how many higher?",
)
def duels(answer: Callable) -> None:
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
    for seed in range(3):
        tied = generator(seed, "duels").integers(0, 4, 8).astype(float)
        won, lost = (np.asarray(part) for part in answer(tied))
        right = [
            [sum(own > other for other in tied) for own in tied],
            [sum(own < other for other in tied) for own in tied],
        ]
        fits = won.tolist() == right[0] and lost.tolist() == right[1]
        require(fits, f"Rewards {tied.tolist()}: a tie counts for nobody. You have {won.tolist()} and {lost.tolist()}.")


@exercise("5.5", "Your own selector (open)", recipe="Begin with a copy of `at_random` and change one thing.")
def my_selector(answer: Selector) -> None:
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
