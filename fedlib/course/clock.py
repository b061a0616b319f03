"""Devices that need time: when they answer, if they answer at all; servers that wait, cut off, or never wait.

The model, on top of rounds (lesson 7 states it). Device i needs s_i seconds for its local work on average; the s_i are
drawn once, log-normal with median 1 s. In a round it takes s_i * (1/2 + E/2) seconds, where E is exponential with mean
1 and new in every round: half of the time is the device's own, half is chance. With probability `SILENT` it never
answers. The server gives a device up after `GIVE_UP` seconds. Sending takes no time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import torch

from fedlib import engine
from fedlib.problem import Federation, generator

SPREAD = 0.8  # of log s_i
SILENT = 0.05
GIVE_UP = 10.0  # seconds until the server gives a device up


@dataclass(frozen=True)
class TimedDevices:
    """The mean seconds s_i of all devices, and the seed of what happens in the rounds."""

    seconds: np.ndarray
    seed: int
    silent: float = SILENT

    def answers(self, round: int) -> np.ndarray:
        """Seconds after which every device would answer in a round; infinity if the server gives it up."""
        stream = generator(self.seed, "answers", round)
        took = self.seconds * (0.5 + 0.5 * stream.exponential(size=len(self.seconds)))
        silent = stream.random(len(self.seconds)) < self.silent
        return np.where(silent | (took > GIVE_UP), np.inf, took)


def draw_devices(clients: int, seed: int, slowest: np.ndarray | None = None) -> TimedDevices:
    """Devices with random speeds; `slowest` is a score per client, and the higher it is the slower is the device."""
    seconds = np.exp(SPREAD * generator(seed, "speeds").normal(size=clients))
    if slowest is not None:
        order = np.argsort(slowest, kind="stable")
        seconds = seconds[np.argsort(seconds)][np.argsort(order)]
    return TimedDevices(seconds, seed)


@dataclass(frozen=True)
class Answered:
    """What the server has when a round ends: after how many seconds, from whom, and how much of their work each did."""

    seconds: float
    clients: np.ndarray
    done: np.ndarray  # share of the local steps, 0 to 1


Policy = Callable[[np.ndarray, np.ndarray], Answered]  # invited clients and their seconds -> what the round brings


def wait_for_all(invited: np.ndarray, seconds: np.ndarray) -> Answered:
    """The round ends with the last answer; silent devices are given up."""
    here = np.isfinite(seconds)
    return Answered(float(np.minimum(seconds, GIVE_UP).max()), invited[here], np.ones(here.sum()))


def deadline(limit: float) -> Policy:
    """The round ends at the deadline, or earlier if everybody has answered; who is late is left out."""

    def policy(invited: np.ndarray, seconds: np.ndarray) -> Answered:
        here = seconds <= limit
        return Answered(float(min(limit, seconds.max())), invited[here], np.ones(here.sum()))

    return policy


def first_of(many: int) -> Policy:
    """The round ends with this many answers; more devices are invited than needed."""

    def policy(invited: np.ndarray, seconds: np.ndarray) -> Answered:
        ends = np.minimum(seconds, GIVE_UP)
        last = np.sort(ends)[min(many, len(ends)) - 1]
        here = np.isfinite(seconds) & (seconds <= last)
        return Answered(float(last), invited[here], np.ones(here.sum()))

    return policy


def partial(limit: float) -> Policy:
    """As `deadline`, but who is late sends what it has done until then."""

    def policy(invited: np.ndarray, seconds: np.ndarray) -> Answered:
        here = np.isfinite(seconds)
        done = np.minimum(1.0, limit / seconds[here])
        return Answered(float(min(limit, seconds.max())), invited[here], done)

    return policy


@dataclass(frozen=True)
class TimedFederation:
    """A federation of devices with a clock: softmax regression, local steps on minibatches."""

    federation: Federation
    devices: TimedDevices
    work: engine.Work
    invited: int = 10

    def invite(self, many: int, round: int) -> np.ndarray:
        stream = generator(self.federation.seed, "participants", round)
        return np.sort(stream.choice(self.federation.clients, many, replace=False))

    def rounds(self, policy: Policy, seconds: float, invited: int | None = None, normalised: bool = False) -> "Diary":
        """Synchronous rounds until the time is up."""
        weights, now, round, diary = self.federation.start.clone(), 0.0, 0, Diary(self)
        diary.note(now, weights)
        while now < seconds:
            round += 1
            clients = self.invite(invited or self.invited, round)
            answered = policy(clients, self.devices.answers(round)[clients])
            weights = self.averaged(weights, answered, round, normalised)
            now += answered.seconds
            diary.note(now, weights)
        return diary

    def averaged(self, weights: torch.Tensor, answered: Answered, round: int, normalised: bool) -> torch.Tensor:
        """FedAvg of those who answered, by data size; normalised as FedNova does it."""
        steps = np.floor(answered.done * (self.work.steps or 1) + 1e-9).astype(int)
        clients, steps = answered.clients[steps > 0], steps[steps > 0]
        if not len(clients):
            return weights
        trained = engine.train(self.federation, engine.Cohort(clients, weights, limit=steps), self.work, round)
        share = self.federation.sizes[torch.as_tensor(clients)]
        share = share / share.sum()
        moves = trained.weights - weights
        if normalised:
            taken = torch.as_tensor(steps, dtype=torch.float32)
            moves = moves / taken.unsqueeze(1) * float((share * taken).sum())
        return weights + engine.weighted_sum(share, moves)

    def asynchronous(self, mixing: float, seconds: float, every: float = 1.0) -> "Diary":
        """Never wait: who answers is mixed in at once, the staler the less, and a random device starts from the result.

        After FedAsync (Xie, Koyejo, Gupta, 2019): w <- (1 - a) w + a w_i with a = mixing / sqrt(1 + staleness), where
        staleness counts the answers that came in between. Always `invited` devices are at work.
        """
        weights, version, diary, stream = self.federation.start.clone(), 0, Diary(self), self._stream()
        queue: list[tuple[float, int, int, float, int, torch.Tensor]] = []
        for number in range(1, self.invited + 1):
            self._send(queue, number, 0.0, version, weights, stream)
        number, next_note = self.invited, 0.0
        while queue[0][0] < seconds:
            now, task, client, begun, seen, received = heappop(queue)
            while next_note <= now:
                diary.note(next_note, weights)
                next_note += every
            if client >= 0:
                cohort = engine.Cohort(np.array([client]), received)
                local = engine.train(self.federation, cohort, self.work, task).weights[0]
                diary.tasks.append((begun, now, client))
                share = mixing / (1 + version - seen) ** 0.5
                weights, version = (1 - share) * weights + share * local, version + 1
            number += 1
            self._send(queue, number, now, version, weights, stream)
        diary.note(seconds, weights)
        return diary

    def _stream(self) -> np.random.Generator:
        return generator(self.federation.seed, "asynchronous")

    def _send(self, queue: list, task: int, now: float, version: int, weights: torch.Tensor, stream) -> None:
        """A random device gets the model; a silent one comes back as client -1 when it is given up."""
        client = int(stream.integers(self.federation.clients))
        took = float(self.devices.answers(task)[client])
        silent = not np.isfinite(took)
        heappush(queue, (now + (GIVE_UP if silent else took), task, -1 if silent else client, now, version, weights))


class Diary:
    """Which model the server had, and since when. Only the models that are asked for are measured."""

    def __init__(self, trial: TimedFederation):
        self.trial = trial
        self.rows: list[tuple[float, torch.Tensor]] = []  # seconds and weights
        self.tasks: list[tuple[float, float, int]] = []  # begin, end and client of asynchronous answers
        self._right: dict[int, torch.Tensor] = {}  # which test digits a row's model gets right

    def note(self, seconds: float, weights: torch.Tensor) -> None:
        self.rows.append((seconds, weights.clone()))

    def right(self, row: int) -> torch.Tensor:
        """For every test digit, whether the model of this row gets it right."""
        if row not in self._right:
            federation, (_, weights) = self.trial.federation, self.rows[row]
            found = engine.logits_of(federation.network, weights, federation.x_test).argmax(1)
            self._right[row] = found == federation.y_test
        return self._right[row]

    def at(self, times: np.ndarray, digits: tuple[int, ...] | None = None) -> np.ndarray:
        """Accuracy of the model that the server has at these times, on all test digits or on some."""
        labels = self.trial.federation.y_test
        chosen = (
            torch.ones(len(labels), dtype=torch.bool) if digits is None else torch.isin(labels, torch.tensor(digits))
        )
        seconds = np.array([second for second, _ in self.rows])
        last = np.searchsorted(seconds, times + 1e-9, side="right") - 1
        return np.array([float(self.right(row)[chosen].float().mean()) for row in last])
