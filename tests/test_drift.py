"""Client drift: the measures on cases one can work out by hand, and the pictures and sliders of the start notebook."""

import numpy as np
import pytest

from fedlib import engine
from fedlib.course import start
from fedlib.problem import partition
from fedlib.problem.federation import federate
from fedlib.report import drift
from fedlib.runs import tables

WORK = engine.Work(lr=0.1, batch=8, epochs=2)


def copies(labels: np.ndarray, clients: int) -> list[np.ndarray]:
    """Every client holds the same few samples."""
    return [np.arange(16) for _ in range(clients)]


def test_clients_with_one_step_on_the_same_data_do_not_drift(make_federation):
    federation = make_federation(parts=copies(np.zeros(240), 4))
    one_step = engine.Work(lr=0.1, batch=16, epochs=1)  # a pass is one batch, whatever its order
    found = drift.measure(federation, federation.start, one_step)
    assert found.kept == pytest.approx(1, abs=1e-6)
    assert found.angle == pytest.approx(np.zeros(4), abs=0.1)
    assert found.length == pytest.approx(np.full(4, found.server_length), rel=1e-5)


def test_the_server_moves_as_fedavg_does(make_federation):
    federation = make_federation(clients=5)
    found = drift.measure(federation, federation.start, WORK)
    clients = np.arange(5)
    shares = federation.sizes / federation.sizes.sum()
    average = engine.train_mean(federation, engine.Cohort(clients, federation.start), WORK, 1, shares).weights
    assert found.server_length == pytest.approx(float((average - federation.start).norm()), rel=1e-4)
    assert found.server_recall == pytest.approx(drift.recall(federation, average), abs=0.02)


def test_skewed_clients_drift_more_and_know_less(make_dataset, make_federation):
    labels = make_dataset().y_train.numpy()
    deals = {
        "alike": partition.iid(labels, 4, rng=np.random.default_rng(0)),
        "skewed": [np.flatnonzero(labels == label) for label in range(4)],
    }
    found = {}
    for name, parts in deals.items():
        federation = make_federation(parts=parts)
        found[name] = drift.measure(federation, federation.start, WORK)
    assert found["skewed"].angle.mean() > found["alike"].angle.mean() + 10
    assert found["skewed"].kept < found["alike"].kept
    assert found["skewed"].recall.mean() < found["alike"].recall.mean()


def test_recall_averages_to_accuracy_when_classes_are_even(make_federation):
    federation = make_federation()
    classes = np.bincount(federation.y_test.numpy())
    recalls = drift.recall(federation, federation.start)
    accuracy = engine.evaluate(federation.network, federation.start, federation.x_test, federation.y_test)["accuracy"]
    assert (recalls * classes).sum() / classes.sum() == pytest.approx(accuracy)


def test_arrows_have_their_true_length_and_angle(make_federation):
    federation = make_federation(clients=6)
    found = drift.measure(federation, federation.start, WORK)
    tips = np.array([note.xy for note in drift.arrows(found).texts])
    assert np.hypot(*tips[:-1].T) == pytest.approx(found.length)
    assert np.degrees(np.abs(np.arctan2(tips[:-1, 1], tips[:-1, 0]))) == pytest.approx(found.angle, abs=1e-3)
    assert tuple(tips[-1]) == pytest.approx((found.server_length, 0))


def test_a_drift_survives_as_a_table(make_federation):
    federation = make_federation(clients=6)
    found = drift.measure(federation, federation.start, WORK)
    back = drift.from_frame(tables.from_csv(tables.to_csv(drift.to_frame(found))))
    for name, value in vars(found).items():
        assert np.array_equal(getattr(back, name), value), name


TOY = {"data_set": "toy", "partitioner": "dirichlet_clients", "clients": 5, "network": "softmax", "alpha": 0.5}


def test_moves_start_where_another_federation_has_led_the_model(folders):
    """After a round of FedAvg on a federation its own clients move as in FedAvg's second round."""
    local = {"epochs": 2, "lr": 0.1, "batch": 8}
    found = drift.from_frame(start.moves(TOY, 0, local, 1, TOY))
    federation = federate(**TOY, seed=0)
    first, second = (start.after(federation, rounds, **local) for rounds in (1, 2))
    assert found.server_length == pytest.approx(float((second - first).norm()), rel=1e-4)
    assert found.before == pytest.approx(drift.recall(federation, first).mean())
    assert start.moves(TOY, 0, local, 1, TOY | {"alpha": 9.0})["length"].iloc[-1] != found.server_length


@pytest.mark.slow
def test_the_sliders_answer_with_another_picture_and_other_numbers(monkeypatch, folders):
    monkeypatch.setattr(start, "problem", lambda alpha, clients, samples: TOY | {"alpha": alpha})
    box = start.explorer(0.3, 1, clients=10, samples=240, seed=0, lr=0.1, batch=8)
    mixture, passes, answer, picture = box.children
    before = answer.value, picture.value
    mixture.value = 100.0
    middle = answer.value, picture.value
    passes.value = 5
    assert len({before, middle, (answer.value, picture.value)}) == 3
    assert bytes(picture.value).startswith(b"\x89PNG")
