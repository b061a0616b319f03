"""The genetic sampler (FedGS, Section VII-A), through the library DEAP.

As printed: a population of 100, 100 generations, and every bit of a child flips with probability 0.001. The paper names
neither the parent selection nor the crossover; we use the common choices, tournaments of three and two-point crossover.
A child with too many or too few devices is repaired: random devices leave, or random others join.
"""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace

import numpy as np
from deap import algorithms, base, tools

from fedlib.selection.matching import Selection, Watch, checked_single_group, distance, largest

POPULATION, GENERATIONS, MUTATION = 100, 100, 0.001  # as printed
TOURNAMENT = 3


class LowDistance(base.Fitness):
    """DEAP's fitness of one number, the distance, to be minimised."""

    weights = (-1.0,)


class Genes(list):
    """A selection as DEAP expects it: a list of bits, one per device, with a fitness."""

    def __init__(self, bits: Iterable[int]):
        super().__init__(bits)
        self.fitness = LowDistance()


Evaluation = Callable[[object, list[Genes]], list[tuple[float]]]


def genetic(A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator, watch: Watch | None = None) -> Selection:
    """The best selection of one group over all generations."""
    A, y = checked_single_group(A, y, size)
    lowest_distances: list[float] = []

    def evaluate_all(_: object, population: list[Genes]) -> list[tuple[float]]:
        distances = distance(A, y, np.array(population, dtype=bool).reshape(-1, A.shape[-1]))
        lowest_distances.append(min([*lowest_distances[-1:], *distances]))
        if watch:
            watch(lowest_distances[-1])
        return [(float(d),) for d in distances]

    start = [Genes(map(int, mask)) for mask in largest(rng.random((POPULATION, A.shape[-1])), size)]
    best = tools.HallOfFame(1)
    with seeded_global_random(rng):
        algorithms.eaSimple(start, _toolbox(size, evaluate_all), 1.0, 1.0, GENERATIONS, halloffame=best, verbose=False)
    return Selection(np.array(best[0], dtype=bool), np.array(lowest_distances))


def _toolbox(size: int, evaluate_all: Evaluation) -> SimpleNamespace:
    """DEAP's toolbox. `map` scores a whole generation at once, so `evaluate` is never called."""

    def mate(mother: Genes, father: Genes) -> tuple[Genes, Genes]:
        first, second = tools.cxTwoPoint(mother, father)
        return repair(first, size), repair(second, size)

    def mutate(genes: Genes) -> tuple[Genes]:
        return (repair(tools.mutFlipBit(genes, MUTATION)[0], size),)

    def select(population: list[Genes], count: int) -> list[Genes]:
        return tools.selTournament(population, count, TOURNAMENT)

    def clone(genes: Genes) -> Genes:
        copy = Genes(genes)
        copy.fitness.values = genes.fitness.values
        return copy

    return SimpleNamespace(mate=mate, mutate=mutate, select=select, clone=clone, map=evaluate_all, evaluate=None)


def repair(genes: Genes, size: int) -> Genes:
    """Flip random bits until exactly `size` are set."""
    surplus = sum(genes) - size
    if surplus:
        candidates = [device for device, bit in enumerate(genes) if bit == (surplus > 0)]
        for device in random.sample(candidates, abs(surplus)):
            genes[device] ^= 1
    return genes


@contextlib.contextmanager
def seeded_global_random(rng: np.random.Generator) -> Iterator[None]:
    """DEAP draws from Python's global generator: seed it from `rng`, and restore its state afterwards."""
    state = random.getstate()
    random.seed(int(rng.integers(2**63)))
    try:
        yield
    finally:
        random.setstate(state)
