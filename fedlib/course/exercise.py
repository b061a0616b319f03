"""Exercises that check themselves: a lesson declares a check, the student's notebook calls it, a scorecard sums up.

    @exercise("1.2", "The share of the largest class", recipe="Count the samples of every class first.")
    def largest_share(answer):
        require(abs(answer([3, 1]) - 3 / 4) < 1e-9, f"Three of four samples share a class. You have {answer([3, 1])}.")

Hints come in tiers. What is still to be written gets none. A wrong answer is told what is wrong with it, the hint of
the `require` that failed. From the second wrong answer on it is also told the recipe. A check prints one line and never
raises because of what a student wrote.
"""

import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType, TracebackType
from typing import Any

import numpy as np

UNCHECKED = "not checked"
UNWRITTEN = "still to be written. Replace what stands for the answer, run that cell, then this one."
RECIPE_FROM = 2  # wrong answers after which the recipe is told


class NotYet(Exception):
    """The answer is not right yet; the message is a hint."""


def require(condition: Any, hint: str) -> None:
    """Go on if the condition holds, otherwise end the check with this hint."""
    if not condition:
        raise NotYet(hint)


def number_in(answer: Any) -> float | None:
    """The answer as a float if it is one real number, be it Python's, NumPy's or a tensor's; otherwise None."""
    plain = np.asarray(answer)
    return float(plain) if plain.ndim == 0 and plain.dtype.kind in "iuf" else None


def whole_number_in(answer: Any) -> int | None:
    """The answer as an int if it is one whole number of any library; otherwise None."""
    plain = np.asarray(answer)
    return int(plain) if plain.ndim == 0 and plain.dtype.kind in "iu" else None


@dataclass
class Exercise:
    """A check with a number and a title; it remembers how its last call ended."""

    number: str
    title: str
    check: Callable[..., None]
    recipe: str  # a way to the answer, for those who have tried
    answers: tuple[str, ...]  # what the exercise defines in the notebook
    passed: bool = False
    hint: str = UNCHECKED  # why it has not passed
    wrong: int = 0  # wrong answers so far

    def __call__(self, *answers: Any) -> None:
        """Check the student's answers and print one line about it."""
        self.passed, self.hint = False, "did not come to an end"  # what remains if the check is interrupted
        self.hint = self._verdict(answers)
        self.passed = not self.hint
        print(f"✗ {self.number} {self.title}: {self.hint}" if self.hint else f"✓ {self.number} {self.title}")

    def _verdict(self, answers: tuple) -> str:
        """Empty if the answers are right, otherwise what to tell the student."""
        if any(answer is ... or answer is None for answer in answers):
            return UNWRITTEN
        try:
            self.check(*answers)
        except NotYet as hint:
            return self._not_yet(f"Hint: {hint}")
        except NotImplementedError as error:
            return f"{_stub_in(error)} is still to be written and comes first." if filled(*answers) else UNWRITTEN
        except Exception as error:
            return self._not_yet(_told(error))
        return ""

    def _not_yet(self, why: str) -> str:
        self.wrong += 1
        return f"not yet. {why}" + (f" A way to do it: {self.recipe}" if self.wrong >= RECIPE_FROM else "")


def exercise(
    number: str, title: str, recipe: str, answers: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Exercise]:
    """Decorator: this function is the check of exercise `number`. It gets the student's answers as arguments.

    `answers` are their names in the notebook; by default there is one, of the check's own name.
    """
    return lambda check: Exercise(number, title, check, recipe, answers or (check.__name__,))


def exercises(lesson: ModuleType) -> list[Exercise]:
    """The exercises of a lesson, in the order of their numbers."""
    return sorted((thing for thing in vars(lesson).values() if isinstance(thing, Exercise)), key=lambda e: e.number)


def scorecard(lesson: ModuleType) -> None:
    """Print how many exercises of the lesson have passed and which are open."""
    all_of_them = exercises(lesson)
    still_open = [each for each in all_of_them if not each.passed]
    print(f"{len(all_of_them) - len(still_open)} of {len(all_of_them)} exercises done.")
    for each in still_open:
        print(f"  open: {each.number} {each.title}")


def filled(*answers: Any) -> bool:
    """Has the student written all of these? Not if one is None, `...`, or still says `raise NotImplementedError`."""
    return all(answer is not None and answer is not ... and not _is_stub(answer) for answer in answers)


def _is_stub(answer: Any) -> bool:
    functions = vars(answer).values() if isinstance(answer, type) else [answer]
    return any(isinstance(f, FunctionType) and "NotImplementedError" in f.__code__.co_names for f in functions)


def _told(error: Exception) -> str:
    """The student's mistake: what was raised and in which line of the cell."""
    what = f"{type(error).__name__}: {error}".removesuffix(": ")
    if lines := _lines_of_student(error.__traceback__):
        file, number = lines[-1]
        return f"{what} (line {number} of your cell: {linecache.getline(file, number).strip()})"
    return f"The answer could not be checked, perhaps it has another form than the task asks for. {what}"


def _stub_in(error: NotImplementedError) -> str:
    """The function that raised it."""
    return [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)][-1]


def _lines_of_student(trace: TracebackType | None) -> list[tuple[str, int]]:
    """File and number of the lines in the notebook that the error went through, innermost last."""
    frames = traceback.walk_tb(trace)
    return [(each.f_code.co_filename, line) for each, line in frames if each.f_globals.get("__name__") == "__main__"]
