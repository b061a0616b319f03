"""FedAvg (McMahan et al., 2017): clients train on their own data, the server averages the models by data size."""

from dataclasses import dataclass
from typing import Any

from fedlib import engine
from fedlib.algorithms.algorithm import Algorithm, State, shares
from fedlib.algorithms.cosine import cosine
from fedlib.problem import Federation
from fedlib.problem.limits import Count, Decay, NonNegative, Positive


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Plain federated averaging; `steps` batches with replacement, or `epochs` passes over the client's data."""

    lr: Positive = 0.1  # the clients' step size
    batch: Count | None = 16  # samples per minibatch; None takes all of the client's in each of `steps`
    steps: Count | None = None
    epochs: Count | None = None  # with neither steps nor epochs: one pass
    momentum: Decay = 0.0
    weight_decay: NonNegative = 0.0  # times the weights, added to every gradient of local training
    final_lr: NonNegative | None = None  # the rate at the end of its cosine schedule; None keeps `lr`
    schedule: Count | None = None  # rounds over which the rate falls, with `final_lr`; a run may have fewer

    def __post_init__(self):
        super().__post_init__()
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                f"steps={self.steps} and epochs={self.epochs}: give one of them, batches with replacement or passes"
            )
        if self.batch is None and self.steps is None:
            raise ValueError("full batches (batch=None) are counted in steps: give steps instead of epochs")
        if (self.final_lr is None) != (self.schedule is None):
            raise ValueError(
                "a falling rate needs both final_lr (its end) and schedule (the round in which it gets there)"
            )

    def rate(self, round: int) -> float:
        """eta_t, the clients' learning rate in a round."""
        if self.final_lr is None or self.schedule is None:
            return self.lr
        return cosine(self.lr, self.final_lr, self.schedule, round)

    def work(self, round: int = 1) -> engine.Work:
        """What a client does in a round."""
        epochs = 1 if self.steps is None and self.epochs is None else self.epochs
        return engine.Work(
            lr=self.rate(round),
            batch=self.batch,
            steps=self.steps,
            epochs=epochs,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )

    def round(self, federation: Federation, state: State, round: int) -> State:
        cohort = engine.Cohort(self.participants(federation, round), state["weights"])
        return {"weights": self.train_mean(federation, cohort, round).weights}

    def train_mean(self, federation: Federation, cohort: engine.Cohort, round: int, **options: Any) -> engine.Averaged:
        """The clients' models after a round's local training, averaged by data size; options as in `engine.train`."""
        average = shares(federation, cohort.clients)
        return engine.train_mean(federation, cohort, self.work(round), round, average, **options)

    def require_rounds(self, rounds: int) -> None:
        if self.schedule is not None and self.schedule < rounds:
            raise ValueError(
                f"schedule={self.schedule} is over before the {rounds} rounds that are to be run: "
                "give the schedule at least as many"
            )
