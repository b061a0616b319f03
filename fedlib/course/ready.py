"""Everything that the lessons need before the first session: data in the cache, inner loops compiled.

Loops are compiled when a method first meets a kind of network, for some seconds each. One round of every method of the
lessons does it for all.
"""

from collections.abc import Iterator

from fedlib import data
from fedlib.algorithms import create
from fedlib.algorithms.algorithm import Algorithm
from fedlib.course.lesson2 import problem as lesson2
from fedlib.course.lesson3 import problem as lesson3
from fedlib.course.lesson4 import problem as lesson4
from fedlib.course.lesson5 import problem as lesson5
from fedlib.course.lesson6 import problem as lesson6
from fedlib.course.lesson7 import problem as lesson7
from fedlib.course.lesson8 import problem as lesson8
from fedlib.problem.federation import Federation, federate
from fedlib.runs.simulation import simulate

DATA = ("handwriting", "mnist")


def make_ready() -> None:
    """Load the data, then train for one round with each method, and say what is being done."""
    for name in DATA:
        loaded = data.load(name)
        print(f"{name}: {len(loaded.y_train):,} samples to train on, {len(loaded.y_test):,} to test", flush=True)
    for lesson, method, federation in _pairs():
        simulate(method, federation, 1, bar=False)
        print(f"lesson {lesson}: {type(method).__name__}", flush=True)
    lesson7.trial(0).asynchronous(lesson7.MIXING, seconds=1.0)
    print("lesson 7: devices with a clock", flush=True)


def _pairs() -> Iterator[tuple[int, Algorithm, Federation]]:
    """Every method of the lessons, with a problem that it meets there."""
    yield 2, create("fedavg", **lesson2.WORK, epochs=1), lesson2.digits("shuffled")
    skewed = lesson3.mnist(0)
    for algorithm, options in lesson3.METHODS.values():
        yield 3, create(algorithm, **options, **lesson3.WORK), skewed
    yield 3, lesson3.AnchoredSteps(**lesson3.WORK), skewed
    devices = federate(**lesson4.PROBLEM, seed=0)
    for name in lesson4.METHODS:
        yield 4, lesson4.method(name), devices
    invited = lesson5.Invited(selector=lesson5.at_random, **lesson5.WORK)
    yield 5, invited, lesson5.world("mixed")
    many = federate(**lesson6.PROBLEM, seed=0)
    for server in lesson6.SERVERS.values():
        yield 6, create(server.algorithm, **lesson6.LOCAL, **server.fixed), many
    yield 6, create("fedavg", epochs=1), federate(**lesson6.CNN, seed=0)
    yield 8, lesson8.FairAverage(q=1.0, **lesson8.WORK), lesson8.world(0).federation
