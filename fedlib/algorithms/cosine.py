"""How the learning rate falls over the rounds: FedSR, Fig. 6, for all methods that share FedAvg's fields."""

from math import cos, pi


def cosine(first: float, last: float, rounds: int, round: int) -> float:
    """eta_t, half a cosine wave: `first` in round 1, `last` in round `rounds`."""
    if not 1 <= round <= rounds:
        raise ValueError(f"round {round} lies outside the schedule of {rounds} rounds: give `rounds` of the whole run")
    if round == rounds:
        return last if rounds > 1 else first
    return last + (first - last) * (1 + cos(pi * (round - 1) / (rounds - 1))) / 2
