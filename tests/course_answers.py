"""Answers of students as cases of tests: (check, right answer, {mistake: (wrong answer, part of its hint)})."""

import pytest


def told(check, answer, capsys) -> str:
    """What a check prints about an answer."""
    check(answer)
    return capsys.readouterr().out


def right_answers(cases, other_forms) -> pytest.MarkDecorator:
    """Every right answer, and right answers in another form."""
    right = [pytest.param(check, answer, id=check.number) for check, answer, _ in cases]
    others = [pytest.param(*case, id=f"{case[0].number} in another form") for case in other_forms]
    return pytest.mark.parametrize(("check", "answer"), right + others)


def typical_mistakes(cases) -> pytest.MarkDecorator:
    """Every mistake with a part of the hint that it must get."""
    mistakes = [(check, name, mistake) for check, _, listed in cases for name, mistake in listed.items()]
    named = [pytest.param(check, *mistake, id=f"{check.number} {name}") for check, name, mistake in mistakes]
    return pytest.mark.parametrize(("check", "answer", "hint"), named)
