"""The genetic sampler (FedGS, Section VII-A), through the library DEAP.

As printed: a population of 100, 100 generations, every bit of a child flips with probability 0.001. The paper names
neither selection nor crossover; ours are tournaments of three and two cutting points, the usual choices. A child with
too many or too few devices is repaired: random ones of them leave, or random others join.
"""

import contextlib
import random
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
from deap import algorithms, base, tools

from fedlib.selection.problem import Selection, Watch, distance, largest, one_group

POPULATION, GENERATIONS, MUTATION = 100, 100, 0.001  # as printed
TOURNAMENT = 3


class Closeness(base.Fitness):
    """One number, the distance, to be made small."""

    weights = (-1.0,)


class Genes(list):
    """A selection as DEAP wants it: a list of bits with a fitness."""

    def __init__(self, bits):
        super().__init__(bits)
        self.fitness = Closeness()


def genetic(A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator, watch: Watch | None = None) -> Selection:
    """The best selection of one group that any generation has seen."""
    A, y = one_group(A, y, size)
    found: list[float] = []

    def fitnesses(evaluate, people: list[Genes]) -> list[tuple[float]]:
        distances = distance(A, y, np.array(people, dtype=bool).reshape(-1, A.shape[-1]))
        found.append(min([*found[-1:], *distances]))
        if watch:
            watch(found[-1])
        return [(float(d),) for d in distances]

    start = [Genes(map(int, mask)) for mask in largest(rng.random((POPULATION, A.shape[-1])), size)]
    fame = tools.HallOfFame(1)
    with borrowed_chance(rng):
        algorithms.eaSimple(start, _operators(size, fitnesses), 1.0, 1.0, GENERATIONS, halloffame=fame, verbose=False)
    return Selection(np.array(fame[0], dtype=bool), np.array(found))


def _operators(size: int, fitnesses) -> SimpleNamespace:
    """DEAP's toolbox; the whole generation is scored at once, so `map` does the work and `evaluate` is only a name."""

    def mate(one: Genes, two: Genes) -> tuple[Genes, Genes]:
        return tuple(repair(child, size) for child in tools.cxTwoPoint(one, two))

    def mutate(one: Genes) -> tuple[Genes]:
        return (repair(tools.mutFlipBit(one, MUTATION)[0], size),)

    def select(people: list[Genes], count: int) -> list[Genes]:
        return tools.selTournament(people, count, TOURNAMENT)

    def clone(one: Genes) -> Genes:
        copy = Genes(one)
        copy.fitness.values = one.fitness.values
        return copy

    return SimpleNamespace(mate=mate, mutate=mutate, select=select, clone=clone, map=fitnesses, evaluate=None)


def repair(genes: Genes, size: int) -> Genes:
    """Exactly `size` ones, by flipping bits at random."""
    surplus = sum(genes) - size
    if surplus:
        wrong = [place for place, bit in enumerate(genes) if bit == (surplus > 0)]
        for place in random.sample(wrong, abs(surplus)):
            genes[place] ^= 1
    return genes


@contextlib.contextmanager
def borrowed_chance(rng: np.random.Generator) -> Iterator[None]:
    """DEAP draws from Python's global stream: seed it from ours, and put it back as it was."""
    before = random.getstate()
    random.seed(int(rng.integers(2**63)))
    try:
        yield
    finally:
        random.setstate(before)
