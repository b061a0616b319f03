"""What clients hold, read like a run: the counts are the federation's, and each sample counts for whoever holds it."""

import numpy as np
import pytest

from fedlib.problem.federation import federate
from fedlib.report import holdings
from fedlib.runs import store

DEAL = {"data_set": "toy", "partitioner": "dirichlet", "clients": 6, "alpha": 0.5}


def test_the_holdings_are_those_of_the_federation(folders):
    held, built = holdings.held(DEAL, 2), federate(**DEAL, seed=2)
    assert (
        held.counts.dtype == int
        and held.counts.flags.c_contiguous
        and (held.counts == built.class_counts.numpy()).all()
    )
    assert held.sizes.tolist() == built.sizes.tolist()
    assert (held.clients, held.samples, held.different) == (6, 120, 120)
    assert (held.weights, held.fingerprint) == (3 * 9 + 3, built.fingerprint)
    assert held.measures().loc["samples", "mean"] == 20


def test_a_shared_sample_counts_for_each_client_and_once_among_the_different(folders):
    deal = {"data_set": "toy", "partitioner": "dominance", "clients": 10, "alphas": 0.0, "client_samples": 60}
    held = holdings.held(deal, 0)
    rows = federate(**deal, seed=0).rows
    assert held.samples == 600
    assert held.different == len(np.unique(np.concatenate(rows))) <= 120


@pytest.mark.parametrize("fingerprint", ["1234567890123456", "12345678901e2345", "00abcdef00000000"])
def test_a_fingerprint_stays_a_text_whatever_its_digits(folders, monkeypatch, fingerprint):
    monkeypatch.setattr("fedlib.problem.partition.fingerprint", lambda parts: fingerprint)
    assert holdings.held(DEAL, 0).fingerprint == fingerprint


def test_holdings_are_computed_once(folders, monkeypatch):
    before = holdings.held(DEAL, 0)
    monkeypatch.setattr(holdings, "federate", None)
    again = holdings.held(DEAL, 0)
    assert (again.counts == before.counts).all() and again.fingerprint == before.fingerprint
    assert store.finished(holdings.class_counts.call(DEAL, 0).name)
