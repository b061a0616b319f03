"""Which runs a notebook asks for: it is executed on the backend that computes nothing, and its studies are noted.

Statements that only show something are skipped, because drawing and judging take most of the time. So is a statement
that fails, because pictures and tables of made-up numbers may fail; the names that it would have set are then missing.
Only if it would have started a study is the plan incomplete, and a note says so. A statement starts at the left margin
of a cell: an assignment, a loop, a definition.
"""

import ast
import contextlib
import io
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from fedlib.report.execute import NO_PROGRESS, environment
from fedlib.report.notebooks import Notebook, cells, parameters
from fedlib.runs import backends, study
from fedlib.runs.run import Run


class Study(NamedTuple):
    """The runs of one study by name, and those that are neither recorded nor stored."""

    runs: dict[str, Run]
    missing: list[str]


class Failure(NamedTuple):
    """A statement of the notebook's `cell`-th code cell that failed, counted as Jupyter counts executions."""

    cell: int
    error: Exception

    def __str__(self) -> str:
        return f"cell {self.cell} failed: {type(self.error).__name__}: {self.error}"


def studies_of(notebook: Notebook, values: dict[str, Any]) -> tuple[list[Study], str | None]:
    """The notebook's studies with these parameters, and None or the reason why others were not found."""
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "studies.jsonl"
        places = {"FEDLIB_REPORT": folder, "FEDLIB_PLANNED": str(noted), "FEDLIB_BACKEND": backends.DRY}
        with environment(places | NO_PROGRESS), contextlib.chdir(notebook.path.parent), _silence():
            failure = run_all(notebook, parameters(notebook.path) | values)
        lines = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
    return list(map(_study, lines)), failure


def _study(line: str) -> Study:
    noted = json.loads(line)
    return Study({name: Run(**asked) for name, asked in noted["runs"].items()}, noted["missing"])


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Print nothing, and close all figures at the end."""
    os.environ["MPLBACKEND"] = "agg"  # read when matplotlib is imported, here by a notebook
    nowhere = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield
    from matplotlib import pyplot

    pyplot.close("all")


def run_all(notebook: Notebook, names: dict[str, Any]) -> str | None:
    """Run every statement that can be run; returns None, or which study could not be started, and why."""
    names["__name__"] = "__main__"
    lost: dict[str, Failure] = {}  # names that a failing statement would have set
    note = None
    for cell, statement in statements(notebook):
        if only_shows(statement, names):
            continue
        try:
            exec(compile(ast.Module([statement], []), str(notebook.path), "exec"), names)
        except Exception as error:
            failure = Failure(cell, error)
            if starts_study(statement, names):
                note = note or f"not all runs are planned: {reason(failure, lost)}"
            for name in assigned(statement):
                names.pop(name, None)
                lost[name] = failure
    return note


def reason(failure: Failure, lost: dict[str, Failure]) -> str:
    """Why a statement failed; if it lacked a name that another would have set, why that one failed."""
    name = failure.error.name if isinstance(failure.error, NameError) else None
    return f"cell {failure.cell} needs {name}, but {reason(lost[name], lost)}" if name in lost else str(failure)


def statements(notebook: Notebook) -> Iterator[tuple[int, ast.stmt]]:
    """All statements, each with the number of its cell, except the parameters, whose values come from the config."""
    code = [cell for cell in cells(notebook.path) if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        if "parameters" not in cell["metadata"].get("tags", []):
            yield from ((number, node) for node in ast.parse("".join(cell["source"])).body)


def assigned(statement: ast.stmt) -> set[str]:
    """The names that a statement sets."""
    return {part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def only_shows(statement: ast.stmt, names: dict[str, Any]) -> bool:
    """Whether a statement is a call of `fedlib.report.show` that starts no study."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    module = getattr(_value(statement.value.func, names), "__module__", None)
    return module == "fedlib.report.show" and not starts_study(statement, names)


def starts_study(statement: ast.stmt, names: dict[str, Any]) -> bool:
    """Whether a statement calls `study.execute`, directly or through functions of fedlib or of the notebook."""
    called = [part.func for part in ast.walk(statement) if isinstance(part, ast.Call)]
    return any(reaches_study(_value(function, names), set()) for function in called)


def _value(expression: ast.expr, names: dict[str, Any]) -> Any:
    """The value of `a` or `a.b.c`."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id)
    if isinstance(expression, ast.Attribute):
        return getattr(_value(expression.value, names), expression.attr, None)
    return None


def reaches_study(function: Any, seen: set[Any]) -> bool:
    """Whether a function is `study.execute` or its code names one that reaches it."""
    if function is study.execute:
        return True
    if not isinstance(function, FunctionType) or not function.__module__.startswith(("fedlib", "__main__")):
        return False
    if function in seen:
        return False
    seen.add(function)
    used = _names_used(function.__code__)
    mentioned = [function.__globals__[name] for name in used if name in function.__globals__]
    modules = [value for value in mentioned if isinstance(value, ModuleType) and value.__name__.startswith("fedlib")]
    mentioned += [getattr(module, name, None) for module in modules for name in used]
    return any(reaches_study(value, seen) for value in mentioned)


def _names_used(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names_used, inner))
