"""Lesson 4, changing the topology: the checks of its exercises."""

from collections.abc import Callable

import numpy as np

from fedlib.course.exercise import exercise, number_in, require, whole_number_in
from fedlib.course.lesson4.problem import (
    BUDGET,
    CLOUD_PRICE,
    DEVICES,
    PATIENCE,
    SAMPLE_DESIGN,
    affordable_rounds,
    cost,
    design,
    epochs_in_a_row,
    models_sent,
)
from fedlib.problem.streams import generator


@exercise(
    "4.1",
    "Count the arrows of a star of rings",
    recipe="Take one ring first: how often is a model sent down, handed on, and sent up?",
)
def arrows_of_rings(answer: Callable[[int, int, int], int]) -> None:
    cases = {(6, 3, 1): 12, (6, 3, 2): 18, (4, 4, 1): 7, (20, 4, 5): 115, (11, 3, 2): 34, (5, 1, 1): 20}
    for devices, ring, passes in generator(1, "course check").integers([5, 1, 1], [40, 6, 5], (6, 3)).tolist():
        cases[devices, ring, passes] = models_sent(design(ring, passes), devices)
    for (devices, ring, passes), sent in cases.items():
        found = answer(devices, ring, passes)
        asked = f"{devices} devices, rings of {ring}, {passes} passes"
        rings = -(-devices // ring)
        require(found is not None, "Your function returns nothing: end it with return.")
        require(
            found != passes * devices + 2 * rings,
            f"{asked}: one arrow a ring is missing. The edge "
            "server hands the model to the first device, and that is an arrow, too.",
        )
        require(found != passes * devices, f"{asked}: you have counted what devices send. What do the servers send?")
        require(
            found != passes * devices + 3 * devices or found == sent,
            f"{asked}: the cloud talks to edge servers, one a ring, not to every device.",
        )
        require(
            devices % ring == 0 or found != passes * devices + 3 * (devices // ring),
            f"{asked}: the devices that are left over form a smaller ring of their own, so round up.",
        )
        require(
            found == sent,
            f"{asked}: {sent} arrows, you have {found}. Down: cloud to edge, edge to first device. "
            "Along the ring: all visits but the first begin with a hand-over. Up: last device to edge, edge to "
            "cloud.",
        )


@exercise(
    "4.2",
    "One model, many visits",
    recipe="Keep one variable for the model; every visit replaces it by what the device returns.",
)
def around_the_ring(answer: Callable) -> None:
    visits = []

    def pull(model: float, device: float) -> float:
        visits.append(device)
        return (model + device) / 2

    found = answer(pull, 8.0, [0.0, 2.0], 1)
    require(found is not None, "Your function returns nothing: end it with return.")
    require(number_in(found) is not None, f"Return the last model alone, not a {type(found).__name__}.")
    require(
        found != (4 + 5) / 2,
        "You train every device from the start and average: that is the star. In a ring the "
        "second device gets the model of the first.",
    )
    require(found != 8.0, "You returned the model that you began with: keep what `train` returns.")
    require(visits != [2.0, 0.0], "The devices come in the order of the list; you went backwards.")
    require(
        found != 5.0, "The second device must get the model that the first one returns; yours gets the start again."
    )
    require(found == 3.0, f"From 8, a visit to 0 and one to 2, each halving the way, lead to 3. You have {found}.")
    visits.clear()
    found = answer(pull, 0.0, [8.0, 0.0, 4.0], 2)
    require(visits == [8.0, 0.0, 4.0] * 2, f"Two passes visit all three devices twice, in turn. You visited {visits}.")
    require(found != 3.0, "The second pass goes on with the model of the first; yours begins again.")
    require(found == 3.375, f"Two passes over [8, 0, 4] from 0 end at 3.375, you have {found}.")
    for devices, passes in ((1, 4), (5, 3)):
        ring = generator(devices, "course check").permutation(devices).tolist()
        visits.clear()
        answer(pull, 1.0, ring, passes)
        require(visits == ring * passes, f"{passes} passes over {ring}: you visited {visits}.")


@exercise(
    "4.3",
    "What it costs to reach a target",
    recipe="Go through the accuracies in order and stop at the first that is high enough.",
)
def cost_to_reach(answer: Callable) -> None:
    curve = [0.1, 0.5, 0.8, 0.7, 0.9]
    found = answer(curve, 0.75, 10)
    require(found is not None, "Your function returns nothing for a target that is reached: use return.")
    require(found != 30, "The list begins with round 0, before anything was sent: position 2 is round 2.")
    require(found != 2, "That is the round. Each round costs something.")
    require(found != 40, "The curve may fall again after the target. The first time counts, not the last.")
    require(found == 20, f"0.75 is first reached in round 2: 2 rounds of cost 10. You have {found}.")
    require(answer(curve, 0.8, 7) == 14, "An accuracy equal to the target has reached it: use >=.")
    require(answer(curve, 0.1, 7) == 0, "A target that the start meets costs nothing.")
    require(answer(curve, 0.95, 7) is None, "A target that is never reached has no price: return None.")
    for seed in range(6):
        rng = generator(seed, "course check")
        curve, target = rng.uniform(0, 1, 9).round(2).tolist(), float(rng.uniform(0.5, 1))
        reached = next((5 * at for at, accuracy in enumerate(curve) if accuracy >= target), None)
        found = answer(curve, target, 5)
        require(found == reached, f"For {curve}, target {target:.2f}, cost 5 it is {reached}, you have {found}.")


@exercise(
    "4.4",
    "Who counts how much after one pass",
    recipe="Write w after two visits out by hand: which factor does t_1 carry, which t_2?",
)
def weights_of_devices(answer: Callable) -> None:
    found = np.asarray(answer(0.5, 3), dtype=float)
    right = np.array([0.125, 0.25, 0.5])
    require(found.shape == (3,), f"Three devices, three numbers. Yours have the shape {found.shape}.")
    require(not np.allclose(found, right[::-1]), "The other way round: the last visitor's pull is the freshest.")
    require(
        not np.allclose(found, right / right.sum()),
        "The start keeps a share, too, so the devices' weights do not add up to 1: leave out the division.",
    )
    require(not np.allclose(found, 2 * right), "Each target enters with the factor `rate` when its device is visited.")
    require(not np.allclose(found, right / 2), "After its own visit a target shrinks once for every LATER device only.")
    shown = np.round(found, 4).tolist()
    require(
        np.allclose(found, right),
        f"rate 0.5: a visitor begins with the weight 0.5, and each later visit halves it. You have {shown}.",
    )
    mine = np.asarray(answer(0.2, 6), dtype=float)
    require(mine.shape == (6,), f"Six devices, six numbers. Yours have the shape {mine.shape}.")
    by_hand = [_pass(0.0, row, 0.2) for row in np.eye(6)]
    require(
        np.allclose(mine, by_hand),
        "rate 0.2, six devices: pull a 0 through a ring in which one target is 1 and the "
        f"others are 0; what comes out is that device's weight. You have {np.round(mine, 4).tolist()}.",
    )
    for rate, devices in ((0.9, 2), (0.05, 11)):
        others = [_pass(0.0, row, rate) for row in np.eye(devices)]
        require(np.allclose(answer(rate, devices), others), f"rate {rate}, {devices} devices: {np.round(others, 4)}.")


def _pass(model: float, targets: np.ndarray, rate: float) -> float:
    for target in targets:
        model += rate * (target - model)
    return float(model)


@exercise(
    "4.5", "Your own rings (open)", recipe=('Give a dictionary such as {"cluster_size": 2, "passes": 2}; then compare.')
)
def my_rings(answer: dict) -> None:
    wanted = {"cluster_size": DEVICES, "passes": PATIENCE}
    fits = isinstance(answer, dict) and set(answer) == set(wanted)
    require(fits, f"Give a dictionary with {' and '.join(wanted)}, no more and no less.")
    for name, most in wanted.items():
        whole = whole_number_in(answer[name])
        fits = whole is not None and 1 <= whole <= most
        require(fits, f"{name} is {answer[name]!r}: a whole number from 1 to {most}.")
    made = design(**answer)
    price, time = cost(made, CLOUD_PRICE), epochs_in_a_row(made)
    require(
        affordable_rounds(made) >= 1,
        f"A round costs {price:g} of {BUDGET} and takes {time} of {PATIENCE} epochs in a row: not even one fits.",
    )
    require(
        answer != SAMPLE_DESIGN, "These are the rings of the text. Try others: larger, smaller, more passes, fewer."
    )
