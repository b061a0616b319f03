"""Which runs a notebook asks for, found without computing them.

Only statements that lead to a study are executed: calls that reach `study.execute`, and whatever defines what they use.
Pictures, tables, audits and searches that no study depends on are left out. `study.execute` itself is replaced, and
nothing is written. A statement is what stands at the left margin of a cell: an assignment, a loop, a definition.
"""

import ast
import contextlib
import io
import os
import symtable
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from fedlib.report.notebooks import Notebook, cells, parameters
from fedlib.runs import study

SILENT = (  # of `fedlib.report.show`
    *("figure", "table", "picture", "keep", "show", "say", "opening", "answer", "source", "verdicts", "style"),
)


class Statement(NamedTuple):
    """One statement of the notebook's `cell`-th code cell, counted as Jupyter counts executions."""

    cell: int
    node: ast.stmt

    @property
    def source(self) -> str:
        return ast.unparse(self.node)


def run_up_to_studies(notebook: Notebook, values: dict[str, Any], execute: Callable) -> str | None:
    """Run what leads to the notebook's studies, each of which calls `execute`; None, or where and why it stopped."""
    names = {"__name__": "__main__"} | parameters(notebook.path) | values
    statement: Statement | None = None
    try:
        with _replaced(execute), contextlib.chdir(notebook.path.parent), contextlib.redirect_stdout(io.StringIO()):
            script = statements(notebook)
            for statement in filter(is_import, script):
                _run(statement.node, notebook, names)
            for statement in needed(script, names):
                _run(statement.node, notebook, names)
    except Exception as error:
        cell = statement.cell if statement else 0
        return f"planned up to cell {cell}, which failed: {type(error).__name__}: {error}"
    return None


def _run(node: ast.stmt, notebook: Notebook, names: dict[str, Any]) -> None:
    exec(compile(ast.Module([node], []), str(notebook.path), "exec"), names)


@contextlib.contextmanager
def _replaced(execute: Callable) -> Iterator[None]:
    """`study.execute` is `execute`, and nothing is shown."""
    os.environ.setdefault("MPLBACKEND", "agg")
    from fedlib.report import show

    before = {name: getattr(show, name) for name in SILENT}
    real, study.execute = study.execute, execute
    for name in SILENT:
        setattr(show, name, lambda *shown, **options: None)
    try:
        yield
    finally:
        study.execute = real
        for name, function in before.items():
            setattr(show, name, function)


def statements(notebook: Notebook) -> list[Statement]:
    """All statements but the parameters, whose values come from the config."""
    code = [cell for cell in cells(notebook.path) if cell["cell_type"] == "code"]
    return [
        Statement(number, node)
        for number, cell in enumerate(code, 1)
        if "parameters" not in cell["metadata"].get("tags", [])
        for node in ast.parse("".join(cell["source"])).body
    ]


def is_import(statement: Statement) -> bool:
    return isinstance(statement.node, ast.Import | ast.ImportFrom)


def needed(script: list[Statement], names: dict[str, Any]) -> list[Statement]:
    """The statements with studies and those that define or change what they use, in order; imports are done already."""
    imported = {name for name, value in names.items() if isinstance(value, ModuleType)}
    functions = [node for _, node in script if isinstance(node, ast.FunctionDef)]
    runners = {function.name for function in functions if has_study(function, names)}
    wanted: set[str] = set()
    chosen = []
    for statement in reversed(script):
        node = statement.node
        if is_import(statement):
            continue
        uses, sets = scope(statement.source)
        changes = changed(node) - imported
        defines_runner = isinstance(node, ast.FunctionDef) and node.name in runners
        if wanted & (sets | changes) or (has_study(node, names, runners) and not defines_runner):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.FunctionDef):
                wanted -= sets  # what stood there before does not matter
            wanted |= uses | changes
            chosen.append(statement)
    return chosen[::-1]


def scope(source: str) -> tuple[set[str], set[str]]:
    """The notebook's names that a statement uses, and those that it sets."""
    top = symtable.symtable(source, "cell", "exec")
    uses = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    sets = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned()}
    inner = list(top.get_children())
    for table in inner:
        uses |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        inner += table.get_children()
    return uses, sets


def changed(node: ast.stmt) -> set[str]:
    """Names whose values a statement may alter in place: `x += y`, `x["a"] = y`, `x.append(y)`."""
    parts = list(ast.walk(node))
    places: list[ast.expr] = [part.target for part in parts if isinstance(part, ast.AugAssign)]
    places += [
        part for part in parts if isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store)
    ]
    calls = [part.value for part in parts if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call)]
    places += [call.func for call in calls if isinstance(call.func, ast.Attribute)]
    return {name for place in places if (name := _base(place))}


def _base(place: ast.expr) -> str | None:
    while isinstance(place, ast.Subscript | ast.Attribute):
        place = place.value
    return place.id if isinstance(place, ast.Name) else None


def has_study(node: ast.AST, names: dict[str, Any], runners: Iterable[str] = ()) -> bool:
    """Whether a statement calls `study.execute`, directly or through functions of fedlib or of the notebook."""
    called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    return any(
        (isinstance(function, ast.Name) and function.id in runners) or reaches_study(_value(function, names))
        for function in called
    )


def _value(expression: ast.expr, names: dict[str, Any]) -> Any:
    """What `a` or `a.b.c` stands for before anything but the imports has run."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id)
    return (
        getattr(_value(expression.value, names), expression.attr, None)
        if isinstance(expression, ast.Attribute)
        else None
    )


def reaches_study(function: Any, seen: set[Any] | None = None) -> bool:
    """Whether a function's code names `study.execute`, or a function of fedlib that does."""
    seen = set() if seen is None else seen
    if function is study.execute:
        return True
    if not isinstance(function, FunctionType) or not function.__module__.startswith("fedlib") or function in seen:
        return False
    seen.add(function)
    names = _named(function.__code__)
    mentioned = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [value for value in mentioned if isinstance(value, ModuleType) and value.__name__.startswith("fedlib")]
    mentioned += [getattr(module, name, None) for module in modules for name in names]
    return any(reaches_study(value, seen) for value in mentioned)


def _named(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_named, inner))
