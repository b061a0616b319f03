"""Lesson 5, choosing who takes part: the checks of its exercises."""

from collections.abc import Callable

import numpy as np

from fedlib.course.exercise import NotYet, exercise, require
from fedlib.course.lesson5.problem import History, Selector, checked_choice, mixture_distance
from fedlib.problem.streams import generator

SMALL = np.array([[6, 0, 0], [0, 1, 1], [3, 3, 6]])  # three clients, three classes


@exercise(
    "5.1",
    "The mixture of a group",
    recipe="Add up the rows of counts that belong to the group, then divide by the total.",
)
def mixture(answer: Callable) -> None:
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
    rng = generator(1, "course check")
    for _ in range(4):
        counts, group = rng.integers(0, 9, (7, 5)) + 1, rng.choice(7, 3, replace=False)
        pooled = np.add.reduce([counts[client] for client in group])
        found = np.asarray(answer(counts, group.tolist()), dtype=float)
        fits = found.shape == (5,) and np.allclose(found * pooled.sum(), pooled)
        require(fits, f"Seven clients, five classes, group {group.tolist()}: the shares are not those of {pooled}.")


@exercise(
    "5.2",
    "How far a group is from everybody",
    recipe="Everybody is a group, too. Subtract the two mixtures, square, add up, take the root.",
)
def distance(answer: Callable) -> None:
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
    rng = generator(2, "course check")
    for _ in range(4):
        counts, group = rng.integers(0, 9, (7, 5)) + 1, rng.choice(7, 3, replace=False).tolist()
        right, found = mixture_distance(counts, group), answer(counts, group)
        require(np.isclose(found, right), f"Group {group} of seven clients is {right:.3f} away, not {found:.3f}.")


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
