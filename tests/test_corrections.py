"""SCAFFOLD, FedNova and FedDyn against readable loops written from their papers, and their limits."""

import numpy as np
import pytest
import torch
from played_rounds import after_rounds, assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again, assert_equal

from fedlib import engine
from fedlib.algorithms import create
from fedlib.engine import readable
from fedlib.engine.minibatches import client_minibatches

NAMES = ("scaffold", "fednova", "feddyn")
EQUAL = {"lr": 0.3, "batch": 7, "steps": 4}
PASSES = {"lr": 0.1, "batch": 6, "epochs": 2}  # ragged clients: unequally many steps
EXACT = {"lr": 0.2, "steps": 10, "batch": None}


def walk(fed, client, start, work, round, direction):
    """Local SGD of one client, batch by batch, along `direction(gradient, weights)`; the end and the steps."""
    weights, batches = start.clone(), client_minibatches(fed, client, work, round)
    for batch in batches:
        gradient = readable.gradient(fed, weights, fed.rows[client][torch.as_tensor(batch)])[0]
        weights = weights - work.lr * direction(gradient, weights)
    return weights, len(batches)


def sizes(fed, clients):
    return [len(fed.rows[client]) for client in clients]


class ReadableScaffold:
    """Algorithm 1 with option II; clients count by size."""

    def __init__(self, fed, algorithm):
        self.fed, self.algorithm, self.x = fed, algorithm, fed.start.clone()
        self.c, self.own = torch.zeros_like(self.x), [torch.zeros_like(self.x) for _ in fed.rows]

    def round(self, round):
        fed, clients, lr = self.fed, self.algorithm.participants(self.fed, round), self.algorithm.lr
        present, everybody = sum(sizes(fed, clients)), sum(sizes(fed, range(fed.clients)))
        x, c = self.x.clone(), self.c.clone()
        for client in clients:
            own, many = self.own[client], len(fed.rows[client])
            y, steps = walk(fed, client, x, self.algorithm.work(), round, lambda g, w, own=own: g - own + c)
            self.own[client] = own - c + (x - y) / (steps * lr)
            self.x = self.x + self.algorithm.server_lr * many / present * (y - x)
            self.c = self.c + many / everybody * (self.own[client] - own)

    def state(self):
        return {"weights": self.x, "control": self.c, "controls": torch.stack(self.own)}


class ReadableFedNova:
    """Its update rule: momentum is followed by hand, and so is the weight of every gradient in the client's move."""

    def __init__(self, fed, algorithm):
        self.fed, self.algorithm, self.x = fed, algorithm, fed.start.clone()

    def round(self, round):
        fed, rho = self.fed, self.algorithm.momentum
        clients = self.algorithm.participants(fed, round)
        p = np.array(sizes(fed, clients)) / sum(sizes(fed, clients))
        directions, efforts = [], []
        for client in clients:
            velocity = torch.zeros_like(self.x)

            def heavy(gradient, weights, velocity=velocity):
                return velocity.mul_(rho).add_(gradient)

            y, steps = walk(fed, client, self.x, self.algorithm.work(), round, heavy)
            efforts.append(sum(rho**later for step in range(steps) for later in range(steps - step)))
            directions.append((y - self.x) / efforts[-1])
        far = float(p @ np.array(efforts))
        self.x = self.x + far * sum(share * direction for share, direction in zip(p, directions, strict=True))

    def state(self):
        return {"weights": self.x}


class ReadableFedDyn:
    """Algorithm 1 with SGD in place of exact minimisation; clients count by size."""

    def __init__(self, fed, algorithm):
        self.fed, self.algorithm, self.theta = fed, algorithm, fed.start.clone()
        self.h, self.own = torch.zeros_like(self.theta), [torch.zeros_like(self.theta) for _ in fed.rows]

    def round(self, round):
        fed, alpha = self.fed, self.algorithm.alpha
        clients = self.algorithm.participants(fed, round)
        present, everybody = sum(sizes(fed, clients)), sum(sizes(fed, range(fed.clients)))
        theta, mean = self.theta, torch.zeros_like(self.theta)
        for client in clients:
            own, many = self.own[client], len(fed.rows[client])

            def direction(gradient, w, own=own):
                return gradient - own + alpha * (w - theta)

            end, _ = walk(fed, client, theta, self.algorithm.work(), round, direction)
            self.own[client] = own - alpha * (end - theta)
            self.h = self.h - alpha * many / everybody * (end - theta)
            mean = mean + many / present * end
        self.theta = mean - self.h / alpha

    def state(self):
        return {"weights": self.theta, "h": self.h, "gradients": torch.stack(self.own)}


READABLE = {
    "scaffold": (ReadableScaffold, {"server_lr": 0.7}),
    "fednova": (ReadableFedNova, {}),
    "feddyn": (ReadableFedDyn, {"alpha": 0.5}),
}


@pytest.mark.parametrize("work", [EQUAL, PASSES], ids=["equal steps", "unequal steps"])
@pytest.mark.parametrize("kind", ["softmax", "dense"])
@pytest.mark.parametrize("name", NAMES)
def test_rounds_equal_the_readable_ones(make_federation, name, kind, work):
    fed, (loop, options) = make_federation(kind, l2=0.01), READABLE[name]
    algorithm = create(name, participation=0.4, **work, **options)
    slow = loop(fed, algorithm)
    for round in range(1, 5):
        slow.round(round)
    fast = after_rounds(algorithm, fed, 4)
    assert set(fast) == set(slow.state())
    for key, expected in slow.state().items():
        assert_equal(fast[key], expected, 1e-4)


def test_fednova_counts_momentum_as_the_readable_loop_does(make_federation):
    fed, algorithm = make_federation(l2=0.01), create("fednova", participation=0.4, momentum=0.8, **PASSES)
    slow = ReadableFedNova(fed, algorithm)
    for round in (1, 2, 3):
        slow.round(round)
    assert_equal(after_rounds(algorithm, fed, 3)["weights"], slow.x, 1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_round_leaves_its_state_alone_and_comes_out_the_same_again(make_federation, name):
    algorithm = create(name, participation=0.4, **EQUAL)
    assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again(algorithm, make_federation(l2=0.01))


@pytest.mark.parametrize("name", NAMES)
def test_each_learns_the_toy_problem(make_federation, name):
    fed, algorithm = make_federation(), create(name, participation=0.4, **EQUAL)
    before = algorithm.measure(fed, algorithm.init(fed))
    after = algorithm.measure(fed, after_rounds(algorithm, fed, 25))
    assert after["loss"] < before["loss"]
    assert after["accuracy"] > 0.6 > before["accuracy"]


# --- limits -----------------------------------------------------------------------------------------------------------


def held(algorithm, fed, rounds):
    """The weights after some rounds in which everything else in the state is put back to its start."""
    state = algorithm.init(fed)
    memory = {name: values for name, values in state.items() if name != "weights"}
    for round in range(1, rounds + 1):
        state = algorithm.round(fed, state, round) | memory
    return state["weights"]


@pytest.mark.parametrize("work", [EQUAL, PASSES], ids=["equal steps", "unequal steps"])
def test_scaffold_with_its_controls_held_at_zero_is_fedavg(make_federation, work):
    fed = make_federation(l2=0.01)
    scaffold, fedavg = (create(name, participation=0.4, **work) for name in ("scaffold", "fedavg"))
    assert_equal(held(scaffold, fed, 3), after_rounds(fedavg, fed, 3)["weights"])
    assert float((after_rounds(scaffold, fed, 3)["weights"] - held(scaffold, fed, 3)).norm()) > 0.01


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fednova_with_equally_many_steps_is_fedavg(make_federation, momentum):
    fed = make_federation(l2=0.01)
    nova, fedavg = (create(name, participation=0.4, momentum=momentum, **EQUAL) for name in ("fednova", "fedavg"))
    assert_equal(after_rounds(nova, fed, 3)["weights"], after_rounds(fedavg, fed, 3)["weights"])


def test_fednova_with_unequal_steps_is_another_method(make_federation):
    fed = make_federation(l2=0.01)
    ends = [after_rounds(create(name, **PASSES), fed, 3)["weights"] for name in ("fednova", "fedavg")]
    assert float((ends[0] - ends[1]).norm()) > 0.01


def test_feddyn_with_its_memories_held_at_zero_is_fedprox(make_federation):
    fed = make_federation(l2=0.01)
    dyn = create("feddyn", participation=0.4, alpha=0.5, **PASSES)

    def average(state):
        return state["weights"] + state["h"] / dyn.alpha  # without the server's correction

    state = dyn.init(fed)
    for round in (1, 2, 3):
        state = dyn.init(fed) | {"weights": average(dyn.round(fed, state, round))}
    prox = create("fedprox", participation=0.4, mu=0.5, **PASSES)
    assert_equal(state["weights"], after_rounds(prox, fed, 3)["weights"])


def optimum(fed, steps=1200, lr=0.5):
    weights, everyone = fed.start.clone(), np.arange(fed.clients)
    for _ in range(steps):
        weights = weights - lr * engine.pooled_gradient(fed, weights, everyone)
    return weights


@pytest.mark.parametrize("work", [EXACT, {"lr": 0.2, "batch": 10**6, "epochs": 10}], ids=["steps", "epochs"])
def test_a_stationary_point_is_a_fixed_point_of_scaffold_and_feddyn_and_not_of_fedavg(make_federation, work):
    """With full batches; the clients remember their gradients there, whose mean is zero."""
    fed = make_federation(l2=0.05, alpha=0.2)
    best = optimum(fed)
    remembered = engine.client_gradients(fed, best, np.arange(fed.clients))
    zero = torch.zeros_like(best)
    states = {
        "scaffold": {"weights": best, "control": zero, "controls": remembered},
        "feddyn": {"weights": best, "h": zero, "gradients": remembered},
        "fedavg": {"weights": best},
        "fednova": {"weights": best},
    }
    moved = {}
    for name, state in states.items():
        algorithm = create(name, **work)
        for round in range(1, 6):
            state = algorithm.round(fed, state, round)
        moved[name] = float((state["weights"] - best).norm() / best.norm())
    assert moved["scaffold"] < 1e-3
    assert moved["feddyn"] < 1e-3
    assert moved["fedavg"] > 0.03
    assert moved["fednova"] > 0.03  # equally many steps, unlike curvatures


@pytest.mark.parametrize(("name", "options"), [("scaffold", {}), ("feddyn", {"alpha": 0.5})])
def test_from_any_start_they_arrive_at_the_optimum_and_fedavg_does_not(make_federation, name, options):
    fed = make_federation(l2=0.05, alpha=0.2)
    best = optimum(fed)
    ends = {
        each: after_rounds(create(each, **EXACT, **more), fed, 150)["weights"]
        for each, more in ((name, options), ("fedavg", {}))
    }
    far = {each: float((end - best).norm() / best.norm()) for each, end in ends.items()}
    assert far[name] < 0.01 < 0.03 < far["fedavg"]


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_the_server_keeps_the_mean_of_what_the_clients_remember(make_federation, name):
    fed = make_federation(l2=0.01)
    state = after_rounds(create(name, participation=0.4, **PASSES), fed, 6)
    mean, memories = ("control", "controls") if name == "scaffold" else ("h", "gradients")
    expected = engine.weighted_sum(fed.sizes / fed.sizes.sum(), state[memories])
    torch.testing.assert_close(state[mean], expected, rtol=1e-3, atol=1e-5)
    assert float(expected.norm()) > 0.01


def test_those_who_did_not_take_part_remember_what_they_knew(make_federation):
    fed, algorithm = make_federation(), create("scaffold", participation=0.4, **EQUAL)
    before = after_rounds(algorithm, fed, 2)
    after = algorithm.round(fed, before, 3)
    present = set(algorithm.participants(fed, 3))
    for client in range(fed.clients):
        same = torch.equal(before["controls"][client], after["controls"][client])
        assert same == (client not in present)


def test_one_step_on_all_data_makes_a_client_remember_its_gradient(make_federation):
    fed = make_federation(l2=0.01)
    state = after_rounds(create("scaffold", lr=0.1, steps=1, batch=None), fed, 1)
    gradients = engine.client_gradients(fed, fed.start, np.arange(fed.clients))
    torch.testing.assert_close(state["controls"], gradients, rtol=1e-3, atol=1e-5)


def test_a_client_of_twice_as_many_steps_counts_as_much_as_the_others_with_fednova(make_federation):
    """Small steps hardly move the gradient, so a move is steps times lr times gradient; tau_eff is the mean effort."""
    fed = make_federation(clients=2, parts=[np.arange(20), np.arange(20, 60)])
    gradients = engine.client_gradients(fed, fed.start, [0, 1])
    work = {"lr": 1e-3, "batch": 20, "epochs": 1}  # one step and two
    nova = after_rounds(create("fednova", **work), fed, 1)["weights"] - fed.start
    average = after_rounds(create("fedavg", **work), fed, 1)["weights"] - fed.start
    share = torch.tensor([1 / 3, 2 / 3])
    wanted = -1e-3 * (share @ torch.tensor([1.0, 2.0])) * (share @ gradients)
    assert_equal(nova, wanted, 0.02)
    assert_equal(average, -1e-3 * (share * torch.tensor([1.0, 2.0])) @ gradients, 0.02)


def test_momentum_is_refused_where_gradients_are_read_off_the_walk():
    with pytest.raises(ValueError, match=r"momentum=0.9: SCAFFOLD .* use momentum=0"):
        create("scaffold", momentum=0.9)


@pytest.mark.parametrize(("name", "option"), [("scaffold", "server_lr"), ("feddyn", "alpha")])
def test_a_strength_of_zero_is_refused(name, option):
    with pytest.raises(ValueError, match=f"{option}=0 must be a number above 0"):
        create(name, **{option: 0})
