"""FedAvg (McMahan et al., 2017): clients train on their own data, the server averages the models by data size."""

from dataclasses import dataclass

from fedlib import engine
from fedlib.algorithms.algorithm import Algorithm, State, shares
from fedlib.federation import Federation


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Plain federated averaging; `steps` batches with replacement, or `epochs` passes over the client's data."""

    lr: float = 0.1
    batch: int = 16
    steps: int | None = None
    epochs: int | None = None
    momentum: float = 0.0

    def work(self) -> engine.Work:
        """What a client does in a round."""
        return engine.Work(lr=self.lr, batch=self.batch, steps=self.steps, epochs=self.epochs, momentum=self.momentum)

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        weights = engine.train_mean(
            federation, state["weights"], clients, self.work(), round, shares(federation, clients)
        )
        return {"weights": weights}
