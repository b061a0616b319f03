"""Which samples a client sees, in which order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlib.engine import Work
from fedlib.engine.minibatches import client_minibatches, draw, positions

STEPS = Work(lr=0.2, batch=7, steps=6)


@given(size=st.integers(1, 50), batch=st.integers(1, 60), epochs=st.integers(1, 4), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_an_epoch_sees_every_sample_once_in_full_batches_but_the_last(size, batch, epochs, seed):
    flat, lengths = positions(size, Work(lr=1, batch=batch, epochs=epochs), np.random.default_rng(seed))
    drawn = np.split(flat, np.cumsum(lengths)[:-1])
    per_epoch = -(-size // batch)
    assert len(drawn) == epochs * per_epoch
    for epoch in range(epochs):
        of_epoch = drawn[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(np.concatenate(of_epoch).tolist()) == list(range(size))
        assert all(len(minibatch) == batch for minibatch in of_epoch[:-1])


@given(size=st.integers(1, 50), batch=st.integers(1, 60), steps=st.integers(1, 9), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_steps_draw_full_batches_with_replacement(size, batch, steps, seed):
    drawn, lengths = positions(size, Work(lr=1, batch=batch, steps=steps), np.random.default_rng(seed))
    assert len(drawn) == steps * batch
    assert lengths.tolist() == [batch] * steps
    assert drawn.min() >= 0
    assert drawn.max() < size


def test_batches_depend_on_seed_round_and_client_alone(make_federation):
    fed, again = make_federation(), make_federation()
    drawn = np.array(client_minibatches(fed, 3, STEPS, 2))
    np.testing.assert_array_equal(drawn, client_minibatches(again, 3, STEPS, 2))
    parts = [np.arange(24) + 24 * client for client in range(10)]
    other, same_size = make_federation(parts=parts, seed=1), make_federation(parts=parts)
    assert not np.array_equal(client_minibatches(same_size, 3, STEPS, 2), client_minibatches(same_size, 4, STEPS, 2))
    assert not np.array_equal(client_minibatches(same_size, 3, STEPS, 2), client_minibatches(same_size, 3, STEPS, 1))
    assert not np.array_equal(client_minibatches(same_size, 3, STEPS, 2), client_minibatches(other, 3, STEPS, 2))


@pytest.mark.parametrize("work", [STEPS, Work(lr=1, batch=5, epochs=2), Work(lr=1, batch=None, steps=3)])
def test_stacked_minibatches_name_the_same_samples_as_the_list_of_a_client(make_federation, work):
    fed, clients, limit = make_federation(), np.array([4, 0, 7]), np.array([2, 99, 3])
    minibatches = draw(fed, clients, work, 3, limit=limit)
    width = work.width(fed)
    for client, first, count, most in zip(clients, minibatches.spans, minibatches.counts, limit, strict=False):
        expected = client_minibatches(fed, client, work, 3)[:most]
        assert count == len(expected)
        places, share = minibatches.stacked(np.arange(first, first + count), width)
        for batch, batch_places, batch_share in zip(expected, places, share, strict=True):
            rows = minibatches.rows[batch_places[batch_share.numpy() > 0]]
            assert rows.tolist() == fed.rows[client][batch].tolist()
            assert float(batch_share.sum()) == pytest.approx(1)


@pytest.mark.parametrize("amount", [{}, {"epochs": 1, "steps": 1}])
def test_work_is_either_epochs_or_steps(amount):
    with pytest.raises(ValueError, match="give either epochs .* or steps"):
        Work(lr=0.1, batch=4, **amount)


def test_full_batches_are_counted_in_steps():
    with pytest.raises(ValueError, match="full batches .* are counted in steps"):
        Work(lr=0.1, batch=None, epochs=2)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"batch": 0}, "batch=0 must be a whole number of at least 1 or None"),
        ({"lr": float("nan")}, "lr=nan must be a number of at least 0"),
        ({"momentum": 2}, r"momentum=2 must be a number in \[0, 1\)"),
        ({"epochs": 1.5}, "epochs=1.5 must be a whole number"),
        ({"weight_decay": "much"}, "weight_decay='much' must be a number of at least 0"),
    ],
)
def test_impossible_work_is_answered_with_what_would_be_right(wrong, complaint):
    with pytest.raises(ValueError, match=complaint):
        Work(**({"lr": 0.1, "batch": 4, "epochs": 1} | wrong))
