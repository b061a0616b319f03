"""Local training: the engine against the readable loop, feature by feature, on dense and convolutional networks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from played_rounds import assert_equal, pictures, spread_weights
from torch.nn import functional

from fedlib import engine
from fedlib.engine import Cohort, Work, readable, threads, training
from fedlib.problem import layout

BATCH = 16
KINDS = ("softmax", "dense")
WORKS = {
    "one epoch": Work(lr=0.2, batch=BATCH, epochs=1),
    "epochs with momentum": Work(lr=0.1, batch=BATCH, epochs=3, momentum=0.9),
    "epochs with decay": Work(lr=0.3, batch=5, epochs=3, decay=0.5),
    "weight decay": Work(lr=0.2, batch=BATCH, epochs=2, momentum=0.5, weight_decay=0.3),
    "steps": Work(lr=0.2, batch=7, steps=6),
    "steps with momentum": Work(lr=0.1, batch=BATCH, steps=9, momentum=0.5, decay=0.9),
    "a batch above all clients": Work(lr=0.2, batch=1000, epochs=2),
    "a batch of one": Work(lr=0.05, batch=1, epochs=1),
    "full batches": Work(lr=0.2, batch=None, steps=4, momentum=0.5),
}
SOME = np.array([8, 3, 0, 6])


def rounds_of(train, fed, cohort, work, rounds=3, **options):
    """Several rounds, each client continuing from its own result: differences would add up."""
    for round in range(1, rounds + 1):
        trained = train(fed, cohort, work, round, **options)
        cohort = replace(cohort, weights=trained.weights, memory=trained.memory)
    return trained


def both(fed, cohort, work, **options):
    fast = rounds_of(engine.train, fed, cohort, work, **options)
    return fast, rounds_of(readable.train, fed, cohort, work, **options)


def everyone(fed) -> Cohort:
    return Cohort(np.arange(fed.clients), spread_weights(fed))


def corrections(fed, clients) -> torch.Tensor:
    """One vector per client, all different."""
    return engine.client_gradients(fed, spread_weights(fed), clients)


# The plain step


@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_training_equals_the_readable_loop_on_ragged_clients(make_federation, kind, work, l2):
    fed = make_federation(kind, l2=l2)
    assert fed.sizes.min() < BATCH < fed.sizes.max()
    fast, slow = both(fed, everyone(fed), work)
    assert_equal(fast.weights, slow.weights)
    assert (fast.steps == slow.steps).all()
    assert float((slow.weights - spread_weights(fed)).norm(dim=1).min()) > 0.05, "training must move every client"


@pytest.mark.parametrize("name", ["epochs with momentum", "steps", "epochs with decay", "weight decay", "full batches"])
def test_convolutional_training_equals_the_readable_loop(name):
    fed = pictures()
    cohort = Cohort(np.array([2, 0, 3]), fed.start)
    fast, slow = (train(fed, cohort, WORKS[name], 1) for train in (engine.train, readable.train))
    assert_equal(fast.weights - fed.start, slow.weights - fed.start, relative=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_each_client_may_have_its_own_rate(make_federation, kind):
    fed = make_federation(kind)
    cohort = Cohort(np.array([7, 2, 5, 0]), spread_weights(fed), rates=torch.tensor([0.4, 0.1, 0.0, 0.2]))
    fast, slow = both(fed, cohort, Work(lr=9.0, batch=6, epochs=2, decay=0.7))
    assert_equal(fast.weights, slow.weights)
    assert torch.equal(fast.weights[2], spread_weights(fed)), "the client with rate 0 stays where it is"


@pytest.mark.parametrize("kind", KINDS)
def test_each_client_may_start_elsewhere(make_federation, kind):
    fed = make_federation(kind)
    starts = torch.stack([spread_weights(fed, seed) for seed in (1, 2, 3)])
    cohort, before = Cohort(np.array([1, 4, 9]), starts), starts.clone()
    work = WORKS["epochs with momentum"]
    assert_equal(engine.train(fed, cohort, work, 1).weights, readable.train(fed, cohort, work, 1).weights)
    assert torch.equal(starts, before), "training must not write into its starting points"


@pytest.mark.parametrize("work", ["epochs with momentum", "steps", "full batches"])
@pytest.mark.parametrize("kind", KINDS)
def test_clients_may_take_unequal_numbers_of_steps(make_federation, kind, work):
    fed = make_federation(kind, l2=0.01)
    cohort = replace(everyone(fed), limit=np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 99]))
    fast, slow = both(fed, cohort, WORKS[work], rounds=1)
    assert_equal(fast.weights, slow.weights)
    assert fast.steps.tolist() == slow.steps.tolist()
    assert fast.steps[0] == 0 and torch.equal(fast.weights[0], spread_weights(fed)), "no step, no change"
    assert len(set(fast.steps.tolist())) > 3


def test_convolutional_clients_may_take_unequal_numbers_of_steps():
    fed = pictures()
    cohort = Cohort(np.arange(4), fed.start, limit=np.array([2, 0, 1, 50]))
    fast, slow = (train(fed, cohort, WORKS["epochs with decay"], 1) for train in (engine.train, readable.train))
    assert fast.steps.tolist() == slow.steps.tolist() == [2, 0, 1, 6]
    moved = np.array([0, 2, 3])
    assert_equal((fast.weights - fed.start)[moved], (slow.weights - fed.start)[moved], relative=1e-4)
    assert torch.equal(fast.weights[1], fed.start)


# Corrections, springs, steps with memory


@pytest.mark.parametrize("shared", [True, False], ids=["one for all", "one each"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_correction_and_a_spring_are_terms_of_every_gradient(make_federation, kind, shared):
    fed = make_federation(kind, l2=0.01)
    correction = corrections(fed, SOME)
    cohort = Cohort(SOME, spread_weights(fed), correction=correction[0] if shared else correction)
    fast, slow = both(fed, cohort, WORKS["epochs with momentum"], proximal=0.4)
    assert_equal(fast.weights, slow.weights)


def test_convolutional_clients_have_corrections_and_springs_too():
    fed = pictures()
    cohort = Cohort(np.arange(4), fed.start, correction=corrections(fed, np.arange(4)))
    fast, slow = (train(fed, cohort, WORKS["steps"], 1, proximal=0.4) for train in (engine.train, readable.train))
    assert_equal(fast.weights - fed.start, slow.weights - fed.start, relative=1e-4)


def pulled_by_memory(weights, memory, batch):
    """A direction that reads the memory, and a memory that follows the weights."""
    direction = batch.gradient(weights) + 0.3 * (weights - memory["average"])
    return direction, {"average": 0.9 * memory["average"] + 0.1 * weights, "visits": memory["visits"] + batch.rate}


@pytest.mark.parametrize("work", ["epochs with momentum", "epochs with decay", "steps"])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_input_and_output_of_a_step(make_federation, kind, work):
    fed = make_federation(kind, l2=0.01)
    average = torch.stack([spread_weights(fed, seed) for seed in range(4)])
    before = average.clone()
    cohort = Cohort(SOME, spread_weights(fed), memory={"average": average, "visits": torch.zeros(4, 1)})
    fast, slow = both(fed, cohort, WORKS[work], step=pulled_by_memory)
    assert_equal(fast.weights, slow.weights)
    assert_equal(fast.memory["average"], slow.memory["average"])
    assert_equal(fast.memory["visits"], slow.memory["visits"])
    assert torch.equal(average, before), "training must not write into the memory it is given"


def test_convolutional_clients_have_memory_too():
    fed = pictures()
    cohort = Cohort(np.arange(4), fed.start, memory={"average": fed.start.repeat(4, 1), "visits": torch.zeros(4, 1)})
    fast, slow = (
        train(fed, cohort, WORKS["steps"], 1, step=pulled_by_memory) for train in (engine.train, readable.train)
    )
    assert_equal(fast.weights - fed.start, slow.weights - fed.start, relative=1e-4)
    assert_equal(fast.memory["average"] - fed.start, slow.memory["average"] - fed.start, relative=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_control_variates_that_last_over_rounds_equal_the_readable_loop(make_federation, kind):
    """SCAFFOLD's bookkeeping: c_i <- c_i - c + (start - end) / (steps * lr), with clients that stop early."""
    fed, work = make_federation(kind), Work(lr=0.2, batch=8, epochs=2)
    clients, limit = np.arange(10), np.array([1, 9, 9, 2, 9, 9, 3, 9, 9, 9])

    def play(train):
        weights, controls = spread_weights(fed), torch.zeros(10, fed.start.numel())
        for round in range(1, 4):
            correction = controls.mean(0) - controls
            trained = train(fed, Cohort(clients, weights, limit=limit, correction=correction), work, round)
            steps = torch.as_tensor(trained.steps).unsqueeze(1)
            controls = (weights - trained.weights) / (steps * work.lr) - correction
            weights = trained.weights.mean(0)
        return weights, controls

    (fast, fast_controls), (slow, slow_controls) = play(engine.train), play(readable.train)
    assert_equal(fast, slow)
    assert_equal(fast_controls, slow_controls, relative=1e-4)


def test_rows_that_do_not_fit_the_clients_are_refused(make_federation):
    fed = make_federation()
    with pytest.raises(ValueError, match="rates has 3 rows, but there are 4 clients: give one row per client"):
        Cohort(SOME, fed.start, rates=torch.ones(3))
    with pytest.raises(ValueError, match="bias has 5 rows"):
        Cohort(SOME, fed.start, memory={"bias": torch.ones(5, 2)})
    with pytest.raises(ValueError, match=r"limit=.* must be numbers of minibatches, 0 or more"):
        Cohort(SOME, fed.start, limit=np.array([1, -1, 2, 3]))
    with pytest.raises(ValueError, match=r"rates=.* must be finite and not negative"):
        Cohort(SOME, fed.start, rates=torch.tensor([0.1, torch.nan, 0.2, 0.3]))


# Losses: seen while training, and of one's own


@pytest.mark.parametrize("work", ["one epoch", "epochs with momentum", "steps", "full batches"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_loss_seen_while_training_is_that_of_the_readable_loop(make_federation, kind, work):
    fed = make_federation(kind, l2=0.01)
    cohort = replace(everyone(fed), limit=np.array([0, 1, 99, 99, 99, 99, 99, 99, 99, 99]))
    fast = engine.train(fed, cohort, WORKS[work], 1, losses=True)
    slow = readable.train(fed, cohort, WORKS[work], 1)
    np.testing.assert_allclose(fast.losses, slow.losses, rtol=1e-5)
    assert torch.isnan(fast.losses[0]) and not torch.isnan(fast.losses[1:]).any()
    silent = engine.train(fed, cohort, WORKS[work], 1)
    assert torch.isnan(silent.losses).all()
    assert torch.equal(silent.weights, fast.weights), "asking for losses changes no digit"


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_seen_is_that_at_the_clients_weights_whatever_the_step_descends(make_federation, kind):
    fed = make_federation(kind)
    start = spread_weights(fed)

    def against_the_start(weights, memory, batch):
        return batch.gradient(weights) - batch.gradient(start.expand_as(weights)), {}

    fast = engine.train(fed, everyone(fed), WORKS["steps"], 1, step=against_the_start, losses=True)
    slow = readable.train(fed, everyone(fed), WORKS["steps"], 1, step=against_the_start)
    np.testing.assert_allclose(fast.losses, slow.losses, rtol=1e-5)
    own_loss = descending(lambda representation, logits, batch: 2 * batch.cross_entropy(logits))
    doubled = engine.train(fed, everyone(fed), Work(lr=0.1, batch=1000, epochs=1), 1, step=own_loss, losses=True)
    plain = engine.train(fed, everyone(fed), Work(lr=0.1, batch=1000, epochs=1), 1, losses=True)
    np.testing.assert_allclose(doubled.losses, plain.losses, rtol=1e-5)


def test_a_step_that_sees_no_loss_says_so(make_federation):
    fed = make_federation()
    with pytest.raises(ValueError, match="takes no gradient of its batch: it sees no loss"):
        engine.train(
            fed, everyone(fed), WORKS["steps"], 1, step=lambda weights, memory, batch: (weights, {}), losses=True
        )


def test_the_mean_loss_of_convolutional_clients():
    fed = pictures()
    cohort = Cohort(np.arange(4), fed.start)
    fast = engine.train(fed, cohort, WORKS["epochs with decay"], 1, losses=True)
    slow = readable.train(fed, cohort, WORKS["epochs with decay"], 1)
    np.testing.assert_allclose(fast.losses, slow.losses, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_losses_of_diverging_clients_show_it(make_federation, kind):
    fed = make_federation(kind)
    cohort, wild = Cohort(SOME, spread_weights(fed)), Work(lr=300.0, batch=5, epochs=1)
    fast, slow = engine.train(fed, cohort, wild, 1, losses=True), readable.train(fed, cohort, wild, 1)
    assert float(slow.losses.max()) > 100
    np.testing.assert_allclose(fast.losses, slow.losses, rtol=1e-3)


def test_a_model_that_overflows_has_no_loss(make_federation):
    fed = make_federation("dense")
    cohort, work = Cohort(SOME, spread_weights(fed)), Work(lr=3e38, batch=5, epochs=3)
    assert not torch.isfinite(engine.train(fed, cohort, work, 1, losses=True).losses).any()


def descending(loss):
    return lambda weights, memory, batch: (batch.gradient(weights, loss), {})


def test_the_usual_loss_written_as_a_loss_of_ones_own_changes_nothing(make_federation):
    fed, work = make_federation("dense", l2=0.02), WORKS["epochs with momentum"]
    step = descending(lambda representation, logits, batch: batch.cross_entropy(logits))
    usual, written = (engine.train(fed, everyone(fed), work, 1, step=each) for each in (None, step))
    assert_equal(written.weights, usual.weights)


def test_a_loss_sees_the_representation_and_ignores_padding(make_federation):
    """One full batch per epoch: the step is the gradient of cross-entropy plus the mean square of the
    representation."""
    fed, work = make_federation("dense"), Work(lr=0.5, batch=1000, epochs=1)

    def loss(representation, logits, batch):
        return batch.cross_entropy(logits) + (representation.square().sum(2) * batch.share).sum(1)

    trained = engine.train(fed, Cohort(np.array([0, 4]), fed.start), work, 1, step=descending(loss))
    layers = fed.network.layers
    for client, weights in zip((0, 4), trained.weights, strict=True):
        layout.load(layers, fed.start)
        layers.zero_grad()
        seen = layers[:-1](fed.x[fed.rows[client], :-1])
        value = functional.cross_entropy(layers[-1](seen), fed.y[fed.rows[client]]) + seen.square().sum(1).mean()
        value.backward()
        assert_equal(weights, fed.start - 0.5 * layout.gradients(layers))


# Splitting a cohort


@pytest.mark.parametrize("bytes_allowed", [1, 6000])
@pytest.mark.parametrize("kind", KINDS)
def test_training_in_chunks_changes_nothing(make_federation, monkeypatch, kind, bytes_allowed):
    fed = make_federation(kind, l2=0.01)
    clients = np.array([9, 0, 4, 5, 2])
    cohort = Cohort(
        clients,
        spread_weights(fed),
        rates=torch.linspace(0.05, 0.3, 5),
        limit=np.array([9, 1, 3, 9, 2]),
        correction=corrections(fed, clients),
        memory={"average": torch.stack([spread_weights(fed, seed) for seed in range(5)]), "visits": torch.zeros(5, 1)},
    )
    work = Work(lr=1, batch=BATCH, epochs=2, momentum=0.5)
    whole = rounds_of(engine.train, fed, cohort, work, step=pulled_by_memory)
    monkeypatch.setattr(training, "CHUNK_BYTES", bytes_allowed)
    assert len(training.chunks(fed, 5, work)) > 1
    parts = rounds_of(engine.train, fed, cohort, work, step=pulled_by_memory)
    assert torch.equal(parts.weights, whole.weights)
    assert all(torch.equal(parts.memory[name], whole.memory[name]) for name in whole.memory)


@pytest.mark.parametrize("step", [None, pulled_by_memory], ids=["plain", "with memory"])
@pytest.mark.parametrize("kind", KINDS)
def test_averaging_in_parts_gives_every_client_what_is_its_own(make_federation, monkeypatch, kind, step):
    """Rates, corrections, limits and memory travel with their clients into each part."""
    fed = make_federation(kind)
    clients, shares = np.arange(fed.clients), fed.sizes / fed.sizes.sum()
    cohort = Cohort(
        clients,
        spread_weights(fed),
        rates=torch.linspace(0.01, 0.4, fed.clients),
        limit=np.arange(1, fed.clients + 1),
        correction=corrections(fed, clients),
        memory={
            "average": torch.stack([spread_weights(fed, seed) for seed in range(10)]),
            "visits": torch.zeros(10, 1),
        },
    )
    work = Work(lr=1, batch=8, epochs=2, momentum=0.5)
    whole = engine.train_mean(fed, cohort, work, 1, shares, step=step, losses=True)
    monkeypatch.setattr(training, "STACK_BYTES", 3 * 4 * fed.start.numel())  # three models at a time
    parts = engine.train_mean(fed, cohort, work, 1, shares, step=step, losses=True)
    torch.testing.assert_close(parts.weights, whole.weights, rtol=1e-5, atol=1e-7)
    assert torch.equal(parts.losses, whole.losses) and (parts.steps == whole.steps).all()
    assert all(torch.equal(parts.memory[name], whole.memory[name]) for name in cohort.memory)
    assert torch.equal(whole.memory["visits"], cohort.memory["visits"]) == (step is None), "a step's memory comes back"
    slow = readable.train(fed, cohort, work, 1, step=step).weights
    torch.testing.assert_close(whole.weights, (shares.unsqueeze(1) * slow).sum(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch", [5, 40, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_no_bit(make_federation, monkeypatch, kind, batch):
    """Some chunks then hold only clients below the batch size, whose minibatches need less padding."""
    fed = make_federation(kind, l2=0.01)
    work = Work(lr=0.1, batch=batch, epochs=3, momentum=0.5)
    step = descending(lambda representation, logits, batch: batch.cross_entropy(logits))
    trained, stepped = {}, {}
    for count in (1, 2, 10):
        monkeypatch.setenv("FEDLIB_THREADS", str(count))
        monkeypatch.setattr(threads, "THREAD_FLOPS", 1)
        assert len(training.chunks(fed, 10, work)) == count
        trained[count] = rounds_of(engine.train, fed, everyone(fed), work).weights
        stepped[count] = rounds_of(engine.train, fed, everyone(fed), work, step=step).weights
    assert torch.equal(trained[1], trained[2]) and torch.equal(trained[1], trained[10])
    assert torch.equal(stepped[1], stepped[2]) and torch.equal(stepped[1], stepped[10])


@pytest.mark.parametrize("work", ["epochs with momentum", "epochs with decay"])
@pytest.mark.parametrize("own_loss", [False, True])
def test_a_clients_training_does_not_depend_on_its_company_or_its_place(make_federation, own_loss, work):
    fed, work = make_federation("dense"), WORKS[work]
    step = descending(lambda representation, logits, batch: batch.cross_entropy(logits)) if own_loss else None

    def trained(clients):
        return engine.train(fed, Cohort(np.array(clients), fed.start), work, 1, step=step).weights

    together = trained(range(10))
    assert torch.equal(trained(range(9, -1, -1)).flip(0), together)
    assert torch.equal(torch.cat([trained([client]) for client in range(10)]), together)


def test_rounds_draw_different_batches(make_federation):
    fed = make_federation()
    first, second = (engine.train(fed, Cohort(SOME, fed.start), WORKS["steps"], round).weights for round in (1, 2))
    assert not torch.allclose(first, second)


# Steps on chosen rows, shared samples


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_on_rows_is_one_step_on_those_rows(make_federation, kind):
    fed = make_federation(kind, l2=0.02)
    starts = torch.stack([spread_weights(fed, seed) for seed in (1, 2)])
    rows = [torch.tensor([5, 1, 77]), torch.arange(30)]
    pairs = zip(starts, rows, strict=True)
    expected = [weights - 0.3 * readable.gradient(fed, weights, chosen)[0] for weights, chosen in pairs]
    assert_equal(engine.step_on_rows(fed, starts, rows, 0.3), torch.stack(expected))


def overlapping(samples: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [np.sort(rng.choice(samples, size, replace=False)) for size in (3, 90, 17, 60, 40)]


@pytest.mark.parametrize("kind", KINDS)
def test_clients_that_share_samples_train_like_the_readable_loop(make_federation, kind):
    fed = make_federation(kind, l2=0.02, parts=overlapping(240))
    assert not fed.contiguous
    for work in (WORKS["epochs with momentum"], WORKS["steps"]):
        fast, slow = both(fed, everyone(fed), work)
        assert_equal(fast.weights, slow.weights)


# Crop and flip


def augmented(kind: str, **options):
    """Pictures that are cropped by up to 3 pixels and flipped while training."""
    network = {"dense": "mlp200", "softmax": "softmax", "convolutional": "lenet_tutorial"}[kind]
    return pictures(network, crop=3, flip=True, standardise="channel", **options)


@pytest.mark.slow
@pytest.mark.parametrize("step", [None, pulled_by_memory], ids=["plain", "with memory"])
@pytest.mark.parametrize("work", ["epochs with momentum", "steps", "full batches"])
@pytest.mark.parametrize("kind", ["softmax", "dense", "convolutional"])
def test_cropping_and_flipping_equal_the_readable_loop(kind, work, step):
    fed = augmented(kind)
    memory = {"average": fed.start.repeat(4, 1), "visits": torch.zeros(4, 1)} if step else {}
    cohort = Cohort(np.arange(4), fed.start, memory=memory)
    gentle = replace(WORKS[work], lr=0.02)
    fast, slow = (train(fed, cohort, gentle, 1, step=step) for train in (engine.train, readable.train))
    assert_equal(fast.weights - fed.start, slow.weights - fed.start, relative=2e-4)
    plain = engine.train(replace(fed, augmentation=None), cohort, gentle, 1, step=step)
    assert not torch.allclose(fast.weights, plain.weights)


@pytest.mark.parametrize("kind", ["softmax", "convolutional"])
def test_a_client_visited_again_goes_on_with_the_next_crops(kind):
    fed = augmented(kind)
    cohort = Cohort(np.arange(4), fed.start)
    twice = engine.train(fed, cohort, Work(lr=0.02, batch=4, epochs=2), 1).weights
    first = engine.train(fed, cohort, Work(lr=0.02, batch=4, epochs=1), 1).weights
    second = engine.train(fed, replace(cohort, weights=first), Work(lr=0.02, batch=4, epochs=1, epochs_done=1), 1)
    assert torch.equal(second.weights, twice)


def test_testing_sees_the_pictures_as_they_are():
    cropped, plain = augmented("convolutional"), pictures(standardise="channel")
    scores = [engine.evaluate(fed.network, fed.start, fed.x_test, fed.y_test) for fed in (cropped, plain)]
    assert scores[0] == scores[1]
