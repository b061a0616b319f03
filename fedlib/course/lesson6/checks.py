"""Lesson 6, the server's step: the checks of its exercises."""

import copy
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import nn

from fedlib.algorithms import create
from fedlib.course.exercise import exercise, require
from fedlib.course.lesson6.problem import Valley, steady_steps, walk, walk_with
from fedlib.data import Dataset
from fedlib.judging.statistics import estimate
from fedlib.problem import layout
from fedlib.problem.federation import assemble
from fedlib.problem.streams import generator


def _same(found, right) -> bool:
    found, right = torch.as_tensor(found, dtype=torch.float64), torch.as_tensor(right, dtype=torch.float64)
    return found.shape == right.shape and torch.allclose(found, right, rtol=1e-5, atol=1e-6)


def _expect(what: str, found, right: list[float], mistakes: Mapping[str, Sequence[float]]) -> None:
    """The value must be right; a known mistake gets its own hint."""
    for hint, wrong in mistakes.items():
        require(not _same(found, wrong), hint)
    require(_same(found, right), f"{what} should be {right}, yours is {_plain(found)}.")


def _plain(value):
    return [round(each, 4) for each in value.tolist()] if isinstance(value, torch.Tensor) else value


def _vectors(*rows: Sequence[float] | Sequence[Sequence[float]]) -> list[torch.Tensor]:
    return [torch.tensor(row, dtype=torch.float64) for row in rows]


def _untouched(before: list[torch.Tensor], after: list[torch.Tensor]) -> None:
    kept = all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    require(kept, "The step changed its inputs in place (+= or mul_). Make new tensors: the caller needs the old ones.")


def _parts(answer, names: str) -> None:
    wanted = names.count(",") + 1
    fits = isinstance(answer, tuple | list) and len(answer) == wanted
    require(
        fits, f"Return {wanted} things, in this order: {names}. The server needs its memory again in the next round."
    )


@exercise(
    "6.1",
    "A server with momentum, repaired",
    recipe="Go through the formula term by term: which average makes Delta, with which factor does Delta enter m, and "
    "does the caller still have its old m afterwards?",
)
def momentum_step(answer):
    w, models, sizes, still, m = _vectors([1, 2], [[3, 2], [1, 6]], [1, 3], [0, 0], [2, -2])
    before = [each.clone() for each in (w, m, models)]
    step = answer(w, still, models, sizes, 1.0, 0.0)
    _parts(step, "w, m")
    _expect(
        "With beta = 0 and rate 1 this is FedAvg: from w = [1, 2] and models [3, 2], [1, 6] of sizes 1 and 3, "
        "the new w",
        step[0],
        [1.5, 5.0],
        {
            "Weigh the clients by their sizes: one has 1 sample, the other 3.": [2, 4],
            "Delta points to where the clients went, so the server adds it. Yours walks the other way.": [0.5, -1],
            "Delta is the average minus w; it seems that you added the whole average to w.": [2.5, 7],
        },
    )
    new_w, new_m = answer(w, m, models, sizes, 0.1, 0.5)
    _expect(
        "With m = [2, -2], beta = 0.5 and Delta = [0.5, 3], the new m",
        new_m,
        [1.5, 2.0],
        {
            "FedAvgM adds the whole Delta to beta m. The factor (1 - beta) belongs to Adam's first moment.": [
                1.25,
                0.5,
            ],
            "The old m should fade: multiply it by beta.": [2.5, 1.0],
            "Keep the server's rate out of m; it scales the step of w only.": [1.05, -0.7],
        },
    )
    _expect(
        "With rate 0.1 and new m = [1.5, 2], the new w",
        new_w,
        [1.15, 2.2],
        {
            "Step along the new m, not along the old one: this round's clients would not be heard.": [1.2, 1.8],
            "The server's rate is missing in the step of w.": [2.5, 4.0],
        },
    )
    _untouched(before, [w, m, models])
    draws = torch.Generator().manual_seed(1)
    for clients, weights in ((5, 3), (2, 7)):
        w, m = torch.rand(2, weights, generator=draws, dtype=torch.float64)
        models = torch.rand(clients, weights, generator=draws, dtype=torch.float64)
        sizes = torch.randint(1, 9, (clients,), generator=draws).double()
        new_w, new_m = answer(w, m, models, sizes, 0.3, 0.8)
        balanced = _same(sizes @ (models - w - (new_m - 0.8 * m)), torch.zeros(weights))  # m - beta m is Delta
        require(balanced and _same(new_w - w, 0.3 * new_m), f"{clients} clients, {weights} weights: another step.")


@exercise(
    "6.2",
    "How long Adam's steps are",
    recipe="First step: put m = 0 and v = tau^2 into the three formulas and divide by the rate. Settled: what do m "
    "and v become if Delta never changes? m = beta1 m + (1 - beta1) Delta has one solution.",
)
def adam_lengths(answer):
    case = "Delta = 3, beta1 = 0.9, beta2 = 0.99, tau = 1"
    found = answer(3.0, 0.9, 0.99, 1.0)
    fits = isinstance(found, tuple | list | np.ndarray | torch.Tensor) and len(found) == 2
    require(fits, "Return two numbers: the length of the first step, and of a step when everything has settled.")
    first, settled = (float(number) for number in found)
    hints = {
        0.3 / (0.3 + 1): "v does not begin at zero but at tau^2, and keeps beta2 of it.",
        3 / (3 + 1): "The first m is not Delta: without bias correction only (1 - beta1) of Delta gets into it.",
        0.3 / (1.08**0.5): "tau stands beside the root once more, in the denominator.",
        3 / (1.08**0.5 + 1): "The first step follows m, which is (1 - beta1) Delta, not Delta itself.",
        0.3 / (1.08 + 1): "Take the root of v.",
    }
    for wrong, hint in hints.items():
        require(abs(first - wrong) > 1e-6, f"First step, {case}: {hint}")
    right = 0.3 / (1.08**0.5 + 1)
    require(abs(first - right) < 1e-6, f"First step, {case}: it is {right:.4f} rates long, yours {first:.4f}.")
    late = {
        1.0: "only if tau is zero is a settled step one rate long.",
        3 / 10**0.5: "tau stands outside the root.",
        0.3 / 4: "m settles where m = beta1 m + (1 - beta1) Delta, so it does not keep the factor (1 - beta1).",
        3.0: "divide by the size that v remembers.",
    }
    for wrong, hint in late.items():
        require(abs(settled - wrong) > 1e-6, f"Settled, {case}: {hint}")
    require(abs(settled - 0.75) < 1e-6, f"Settled, {case}: m is 3 and the root of v is 3, not {settled:.4f}.")
    rng = generator(6, "course check")
    for _ in range(4):
        delta, tau = rng.uniform(0.1, 5, 2)
        beta1, beta2 = rng.uniform(0, 0.95, 2)
        steps = steady_steps(delta, 600, beta1, beta2, tau)
        found = np.array([float(number) for number in answer(delta, beta1, beta2, tau)])
        told = f"Delta = {delta:.2f}, beta1 = {beta1:.2f}, beta2 = {beta2:.2f}, tau = {tau:.2f}"
        require(np.allclose(found, steps[[0, -1]], rtol=1e-5), f"{told}: the library's FedAdam steps {steps[[0, -1]]}.")


@exercise(
    "6.3",
    "FedAvg from scratch",
    recipe="copy.deepcopy(model) is the server. In each round: for every client deepcopy the server, train the copy "
    "with torch.optim.SGD and cross_entropy on shuffled minibatches (torch.randperm), keep its state_dict(). Then "
    "build a state dict of size-weighted sums and load_state_dict it.",
)
def my_fedavg(answer):
    federation, clients = _tiny()
    _one_step_is_gradient_descent(answer, federation, clients)
    _keeps_its_model(answer, federation, clients)
    for rounds, epochs in ((1, 3), (3, 2)):
        method = create("fedavg", lr=0.2, batch=1000, epochs=epochs)
        state = method.init(federation)
        for round in range(1, rounds + 1):
            state = method.round(federation, state, round)
        found = layout.flatten(answer(_network(federation), clients, rounds, epochs, 0.2, 1000, 0))
        require(
            torch.allclose(found, state["weights"], atol=1e-4),
            f"{rounds} rounds of {epochs} epochs with full batches do not end where the library's FedAvg ends. In each "
            "round every client starts from the server's model, and only the average goes on to the next round.",
        )
    _sees_all_samples_in_batches(answer, federation, clients)


def _tiny():
    """Three clients of 4, 8 and 12 samples in four dimensions, with a network of one hidden layer."""
    rng = generator(7, "course check")
    x = torch.as_tensor(rng.normal(size=(24, 4)), dtype=torch.float32)
    y = torch.as_tensor(rng.integers(0, 3, 24))
    parts = [np.arange(0, 4), np.arange(4, 12), np.arange(12, 24)]
    layers = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    dataset = Dataset("tiny", x, y, x, y, ("a", "b", "c"), None, None, "tiny")
    return assemble(dataset, parts, layers, 0), [(x[part], y[part]) for part in parts]


def _network(federation) -> nn.Sequential:
    """A copy of the network at its start."""
    network = copy.deepcopy(federation.network.layers)
    layout.load(network, federation.start)
    return network


def _one_step_is_gradient_descent(answer: Callable, federation, clients) -> None:
    """One full-batch step of everybody, averaged by size, is a gradient step on all samples together."""
    start, network = federation.start, _network(federation)
    trained = answer(network, clients, 1, 1, 0.5, 1000, 0)
    require(isinstance(trained, nn.Module), "Return the trained model, an nn.Module like the one you got.")
    found = layout.flatten(trained)
    x, y = (torch.cat(parts) for parts in zip(*clients, strict=True))
    slopes = [_slope(_network(federation), *client) for client in clients]
    require(not torch.allclose(found, start, atol=1e-7), "The model that you return has not moved at all.")
    require(
        not torch.allclose(found, start - 0.5 * torch.stack(slopes).mean(0), atol=1e-5),
        "Clients count by their numbers of samples: 4, 8 and 12 here. You took the plain mean.",
    )
    require(
        not torch.allclose(found, start - 0.5 * slopes[-1], atol=1e-5),
        "You return the last client's model: average the clients' models.",
    )
    require(
        torch.allclose(found, start - 0.5 * _slope(_network(federation), x, y), atol=1e-5),
        "With one full batch per client a round is one gradient step on the cross-entropy of all samples together. "
        "Yours is not: do all clients start from the same model, with plain SGD and the mean loss of the batch?",
    )


def _slope(network: nn.Sequential, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    network.zero_grad()
    nn.functional.cross_entropy(network(x), y).backward()
    return layout.gradients(network)


def _keeps_its_model(answer: Callable, federation, clients) -> None:
    network = _network(federation)
    answer(network, clients, 1, 1, 0.5, 1000, 0)
    kept = torch.equal(layout.flatten(network), federation.start)
    require(kept, "Your loop trained the model that it was given. Work on a copy (copy.deepcopy).")


def _sees_all_samples_in_batches(answer: Callable, federation, clients) -> None:
    """What passes through the network in training, one client with eight samples, batches of three, two epochs."""
    seen, network = [], _network(federation)
    network.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].detach().clone()))
    x, y = clients[1]
    answer(network, [(x, y)], 1, 2, 0.1, 3, 0)
    lengths = [len(batch) for batch in seen]
    require(
        lengths == [3, 3, 2, 3, 3, 2],
        f"Eight samples in batches of three, two epochs: batches of 3, 3, 2, 3, 3, 2. Yours had {lengths}.",
    )
    orders = [[int((x == row).all(1).nonzero()[0]) for row in torch.cat(seen[i : i + 3])] for i in (0, 3)]
    require(
        all(sorted(order) == list(range(8)) for order in orders),
        "An epoch takes every sample of the client once. Yours takes some twice and leaves others out.",
    )
    require(orders[0] != orders[1], "Shuffle the samples anew in every epoch (torch.randperm).")


@exercise(
    "6.4",
    "What the tuning cannot tell",
    recipe="Find the rate with the best mean. For every rate take the differences to it, seed by seed, and "
    "estimate(differences).interval(); keep the rate if the interval contains 0.",
)
def undecided(answer):
    scores = {
        0.1: np.array([0.70, 0.72, 0.71, 0.73]),
        0.3: np.array([0.80, 0.90, 0.70, 0.85]),
        1.0: np.array([0.81, 0.92, 0.70, 0.86]),
        3.0: np.array([0.79, 0.90, 0.68, 0.84]),
    }
    found = _rates(answer(scores))
    require(1.0 in found, "The best rate, 1.0 here, cannot be told from itself: it belongs to the answer.")
    require(
        found != {1.0, 0.3, 3.0, 0.1},
        "Compare seed by seed: on every seed 3.0 is exactly two points below 1.0, which is no accident.",
    )
    require(found != {1.0}, "0.3 is below 1.0 by 1, 2, 0 and 1 points: that interval contains zero. Keep it.")
    told = (
        f"Of 0.1, 0.3, 1.0 and 3.0 only 0.1, 0.3 and 1.0 remain, not {sorted(found)}: 3.0 loses two points everywhere."
    )
    require(found == {0.1, 0.3, 1.0}, told)
    rng = generator(8, "course check")
    for seeds in (2, 5, 10):
        seed_effect = rng.normal(0, 0.05, seeds)
        scores = {
            rate: 0.8 + seed_effect + rng.normal(-0.01 * place, 0.01, seeds) for place, rate in enumerate((1, 2, 4, 8))
        }
        means = {rate: values.mean() for rate, values in scores.items()}
        top = max(means, key=means.__getitem__)
        right = {rate for rate in scores if rate == top or _contains_zero(scores[rate] - scores[top])}
        found = _rates(answer(scores))
        require(found == right, f"With {seeds} seeds {sorted(right)} cannot be told apart, you have {sorted(found)}.")


def _rates(answer) -> set[float]:
    return {float(rate) for rate in answer}


def _contains_zero(differences: np.ndarray) -> bool:
    low, high = estimate(differences).interval() or (0.0, 0.0)
    return low <= 0 <= high


VALLEYS = [(angle, seed) for angle in (0, 30, 75) for seed in range(20, 26)]  # none of them is shown in the lesson


@exercise(
    "6.5",
    "Your own server (open)",
    recipe="Across the valley the rounds disagree, along it they agree. Keep a memory m of Delta (memory['m']) that "
    "fades slowly, and let the step shrink as rounds go by.",
)
def my_server(answer):
    fresh = answer(torch.zeros(2, dtype=torch.float64), {}, torch.ones(2, dtype=torch.float64), 1)
    fits = isinstance(fresh, tuple | list) and len(fresh) == 2 and isinstance(fresh[1], dict)
    require(fits, "Return (w, memory), the new model and the dictionary that you get back in the next round.")
    require(np.shape(fresh[0]) == (2,), f"The model has two weights; yours has the shape {np.shape(fresh[0])}.")
    gains = []
    for angle, seed in VALLEYS:
        valley = Valley(angle=angle, seed=seed)
        mine, plain = walk_with(answer, valley, 40), walk("fedopt", valley, 40)
        lost = valley.loss(mine)[21:]
        require(np.isfinite(lost).all() and lost.max() < 50, f"In a valley turned by {angle} degrees it runs away.")
        gains.append(float(np.log(valley.loss(plain)[21:].mean() / lost.mean())))
    low, _ = estimate(np.array(gains)).interval() or (0.0, 0.0)
    factor = float(np.exp(np.mean(gains)))
    require(
        low > 0,
        f"Over rounds 21 to 40 in {len(VALLEYS)} valleys that you have not seen, FedAvg's loss is {factor:.2f} times "
        "yours; that is not above 1 beyond doubt (95% interval). Where does FedAvg lose: across or along the valley?",
    )
    require(factor > 1.5, f"You beat FedAvg, but only by a factor of {factor:.2f} in the loss; 1.5 is asked for.")
