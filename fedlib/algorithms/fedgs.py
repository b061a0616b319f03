"""FedGS (Li et al.: "Data Heterogeneity-Robust Federated Learning via Group Client Selection in Industrial IoT", IEEE
IoT Journal 2022), Section IV: factories build super nodes whose batches look alike, and synchronise them in two steps.

In each iteration a factory picks L devices whose next batches together have the class shares of all data. They take
one SGD step and are averaged inside the factory (internal synchronisation); after T iterations the factories' models
are averaged (external synchronisation). One step from a shared model followed by the mean is one step on the union of
the batches, and that is what is computed.

As in the authors' released code, a factory with fewer than L devices takes all it has. That code draws the pre-sample
once per round, the paper once per iteration: `presample_each` says which.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from fedlib import engine, selection
from fedlib.algorithms.algorithm import Algorithm, State
from fedlib.problem import Federation, SampleQueues, generator
from fedlib.problem.limits import Count, Positive, Whole

SAMPLERS = {"gbp_cs": selection.gbp_cs, "best_swap": selection.best_swap}


@dataclass(frozen=True)
class FedGS(Algorithm):
    """Hyper-parameters with the paper's symbols; with `presampled = devices` all devices are chosen at random."""

    factories: Count = 10  # M; neighbouring clients share a factory
    devices: Count = 10  # L, devices that take part in each factory and iteration; a smaller factory takes all it has
    presampled: Whole = 2  # L_rnd of them are drawn at random
    presample_each: Literal["iteration", "round"] = "iteration"  # how often these are redrawn
    batch: Count = 32  # n, samples per device and iteration
    iterations: Count = 50  # T, internal synchronisations per round
    lr: Positive = 0.01  # eta
    sampler: Literal["gbp_cs", "best_swap"] = "gbp_cs"  # how the others are chosen; best_swap is our own

    def __post_init__(self):
        super().__post_init__()
        if self.participation != 1:
            raise ValueError(
                f"participation={self.participation}: FedGS draws its devices itself: leave it at 1, set `devices`"
            )
        if self.presampled > self.devices:
            raise ValueError(f"presampled={self.presampled} must lie between 0 and devices={self.devices}")

    def init(self, federation: Federation) -> State:
        if federation.clients < self.factories:
            raise ValueError(f"{federation.clients} devices cannot fill {self.factories} factories: take fewer")
        taken = torch.zeros(federation.clients, dtype=torch.int64)
        return super().init(federation) | {"taken": taken, "divergence": torch.tensor(float("nan"))}

    def round(self, federation: Federation, state: State, round: int) -> State:
        queues = SampleQueues(federation, self.batch, state["taken"].numpy())
        models = state["weights"].repeat(self.factories, 1)  # omega^m
        divergence = []
        for t in range((round - 1) * self.iterations, round * self.iterations):
            chosen, divergences = self.select(federation, queues.counts, t)
            rows = [torch.as_tensor(queues.rows[devices].ravel()) for devices in chosen]
            crops = self.crops(federation, chosen, t)
            models = engine.step_on_rows(federation, models, rows, self.lr, crops)  # (3) and (4) in one
            queues.advance(np.concatenate(chosen))
            divergence.append(divergences.mean())
        even = torch.full((self.factories,), 1 / self.factories)
        return {
            "weights": engine.weighted_sum(even, models),  # (5)
            "taken": torch.from_numpy(queues.taken),
            "divergence": torch.tensor(np.mean(divergence), dtype=torch.float32),
        }

    def crops(self, federation: Federation, chosen: list[np.ndarray], t: int) -> list[np.ndarray] | None:
        """How each factory's samples are cropped and flipped, where the federation asks for it."""
        augmentation = federation.augmentation
        if augmentation is None:
            return None

        def of_device(device: int) -> np.ndarray:
            return augmentation.draw(generator(federation.seed, "augmentation", t, device), self.batch)

        return [np.concatenate([of_device(int(device)) for device in devices]) for devices in chosen]

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        """Scores, and ||P_t^m - P_real|| as a mean over factories and the round's iterations."""
        return super().measure(federation, state) | {"divergence": float(state["divergence"])}

    def select(self, federation: Federation, counts: np.ndarray, t: int) -> tuple[list[np.ndarray], np.ndarray]:
        """C_t^m, the devices of each factory in iteration t, Algorithm 2, and their divergences ||P_t^m - P_real||."""
        real = selection.real_distribution(federation.class_counts.numpy())  # P_real, (2)
        rng = generator(
            federation.seed, "presampled", t if self.presample_each == "iteration" else t // self.iterations
        )
        selections = [self.select_alike(block, counts, real, rng) for block in self.blocks(federation.clients)]
        chosen = [devices for block, _ in selections for devices in block]
        return chosen, np.concatenate([divergences for _, divergences in selections])

    def blocks(self, clients: int) -> list[np.ndarray]:
        """The factories' devices (factories, K^m), those of equal size together: sizes differ by one at most."""
        groups = np.array_split(np.arange(clients), self.factories)
        sizes = np.array([len(group) for group in groups])
        return [np.stack([groups[m] for m in np.flatnonzero(sizes == size)]) for size in np.unique(sizes)[::-1]]

    def select_alike(
        self, block: np.ndarray, counts: np.ndarray, real: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same for factories of one size, all at once."""
        size = min(self.devices, block.shape[1])  # L
        at_random = min(self.presampled, size)  # L_rnd
        drawn = rng.permuted(block, axis=1)
        random, others = drawn[:, :at_random], np.sort(drawn[:, at_random:], axis=1)
        samples = self.batch * size  # nL
        y = selection.target(real, samples, counts[random].sum(axis=1))  # (11)
        if at_random == size:
            return random, np.sqrt((y * y).sum(axis=1)) / samples
        candidates = np.swapaxes(counts[others], 1, 2)  # A_t^m
        selected = SAMPLERS[self.sampler](candidates, y, size - at_random)
        chosen = np.take_along_axis(others, selected.devices, axis=1)
        return np.concatenate([random, chosen], axis=1), selected.distance / samples
