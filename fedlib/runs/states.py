"""The state of a method after some rounds, for those who look at the model and not at its scores."""

from fedlib.algorithms.algorithm import Algorithm, State
from fedlib.problem.federation import Federation
from fedlib.runs.simulation import Progress, simulate


def state_after(algorithm: Algorithm, federation: Federation, rounds: int) -> State:
    """The state after this many rounds; the initial one after none."""
    progress = Progress(state=algorithm.init(federation))
    if rounds:
        simulate(algorithm, federation, rounds, every=rounds, progress=progress, bar=False)
    assert progress.state is not None  # set above
    return progress.state
