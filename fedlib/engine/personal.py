"""Scores of personal models: every client's model is judged on the client's own samples."""

from collections.abc import Callable
from dataclasses import replace

import torch

from fedlib import engine
from fedlib.engine import crew


@torch.no_grad()
def evaluate_own(federation, model: Callable[[int], torch.Tensor]) -> dict[str, float]:
    """Loss and scores on the test set, where `model(client)` judges the samples that this client wrote."""
    clients = federation.test_clients.unique().tolist()

    def judge(client: int) -> tuple[float, torch.Tensor]:
        own = _tested_on(federation, federation.x_test, federation.y_test, federation.test_clients == client)
        return engine._evaluate_rows(own, model(client), slice(None))

    found = crew.share_out(judge, clients)
    loss, counts = sum(loss for loss, _ in found), sum(counts for _, counts in found)
    return {"loss": loss / len(federation.y_test), **engine.scores_of(counts)}


@torch.no_grad()
def training_accuracy(federation, models: torch.Tensor, clients) -> torch.Tensor:
    """Accuracy of each client's model (clients, weights) on the client's own training samples."""

    def judge(pair: tuple[int, torch.Tensor]) -> float:
        client, weights = pair
        own = _tested_on(federation, federation.x, federation.y, federation.rows[client])
        _, counts = engine._evaluate_rows(own, weights, slice(None))
        return float(counts.diagonal().sum()) / float(counts.sum())

    return torch.tensor(crew.share_out(judge, zip(clients, models, strict=True)), dtype=torch.float64)


def _tested_on(federation, x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor):
    return replace(federation, x_test=x[rows], y_test=y[rows])
