"""A run's *maker*: a digest of the code that decides its digits.

From its roots (the method, the partitioner, the network, `federate`, `simulate`) the names that a definition uses are
followed to other definitions of fedlib, and from these to the next. The syntax trees of all definitions reached make up
the digest; comments, docstrings and layout do not count, and every supported Python computes the same digest. Other
definitions do not count, so a new method, or a correction in another one, leaves a run's maker as it is.

Only the standard library is used, so that any Python can compute a digest without fedlib's packages.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# Tables of all methods, networks and partitioners: the entry that a run uses is a root of its own.
TABLES = {
    "fedlib.algorithms:REGISTRY",
    "fedlib.problem.models:NETWORKS",
    "fedlib.problem.partition:PARTITIONERS",
}
NOT_FOLLOWED = ("fedlib.data", "fedlib.runs")  # data count by their bytes; how runs are kept does not count ...
FOLLOWED = ("fedlib.runs.simulation",)  # ... but how they are computed does
UNIMPORTANT = ("ctx", "kind", "type_comment", "type_ignores", "type_params")  # or not in every Python
Definition = tuple[str, str]  # module, name; the name "" stands for what a module does when it is imported


@dataclass
class Module:
    """The definitions and imports at the top level of a file."""

    name: str
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Definition] = field(default_factory=dict)  # name here -> module and name there ("" the module)


class Sources:
    """The Python files of a package, read now and parsed when asked for."""

    def __init__(self, package: Path = PACKAGE) -> None:
        self.files = {_module_name(path, package): path.read_bytes() for path in sorted(package.rglob("*.py"))}
        self._modules: dict[str, Module] = {}
        self._digests: dict[Definition, tuple[str, list[Definition]]] = {}
        self._makers: dict[tuple, str] = {}

    def maker(self, roots: Iterable[Definition], mode: str) -> str:
        """The digest of all that the roots lead to, in a mode of the numerics."""
        asked = (mode, *sorted(set(roots)))
        if asked not in self._makers:
            lines = [f"{module}:{name} {digest}" for (module, name), digest in sorted(self.reached(asked[1:]).items())]
            self._makers[asked] = hashlib.sha256("\n".join([mode, *lines]).encode()).hexdigest()[:16]
        return self._makers[asked]

    def reached(self, roots: Iterable[Definition]) -> dict[Definition, str]:
        """The definitions that the roots lead to, with a digest each."""
        waiting, digests = [place for root in roots for place in self._resolved(*root)], {}
        while waiting:
            definition = waiting.pop()
            if definition not in digests and ":".join(definition) not in TABLES:
                digests[definition], used = self._read(definition)
                waiting += [*used, (definition[0], "")]
        return digests

    def texts(self, roots: Iterable[Definition]) -> set[str]:
        """All string constants in the definitions reached: a method, network or partitioner may be named by one."""
        reached = [self._module(module).definitions.get(name, []) for module, name in self.reached(roots)]
        parts = [part for statements in reached for statement in statements for part in ast.walk(statement)]
        return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}

    def _read(self, definition: Definition) -> tuple[str, list[Definition]]:
        """The digest of a definition and what it uses."""
        if definition not in self._digests:
            module = self._module(definition[0])
            statements = module.definitions.get(definition[1], [])
            text = ascii([_plain(statement) for statement in statements])
            used = [place for statement in statements for place in self._used(module, statement)]
            self._digests[definition] = hashlib.sha256(text.encode()).hexdigest()[:16], used
        return self._digests[definition]

    def _used(self, module: Module, statement: ast.stmt) -> Iterator[Definition]:
        """The definitions of fedlib that a statement names; a local variable of that name counts, too."""
        imports = module.imports | _imports(statement)
        for chain in _chains(statement):
            if chain[0] in imports:
                yield from self._followed(*imports[chain[0]], chain[1:])
            elif chain[0] in module.definitions:
                yield module.name, chain[0]

    def _followed(self, module: str, name: str, attributes: list[str]) -> Iterator[Definition]:
        """Where an imported name, with the attributes asked of it, is defined."""
        for place in self._resolved(module, name):
            if place[1] != "" or place[0] not in self.files:
                yield place
            elif attributes:  # a module, of which something is used
                yield from self._followed(place[0], attributes[0], attributes[1:])
            else:  # a module that is handed on: all of it may be used
                inside = self._module(place[0])
                yield from ((place[0], defined) for defined in inside.definitions)
                for origin in inside.imports.values():
                    yield from self._resolved(*origin)

    def _resolved(self, module: str, name: str) -> list[Definition]:
        """The module that defines a name, through whatever packages export it; none outside fedlib."""
        if module not in self.files or (module.startswith(NOT_FOLLOWED) and module not in FOLLOWED):
            return []
        if name == "":
            return [(module, "")]
        here = self._module(module)
        if here.imports.get(name, (module, name)) != (module, name):  # a package may import its own modules
            return self._resolved(*here.imports[name])
        if name in here.definitions:
            return [(module, name)]
        return self._resolved(f"{module}.{name}", "")

    def _module(self, name: str) -> Module:
        if name not in self._modules:
            self._modules[name] = _parsed(name, self.files[name])
        return self._modules[name]


@cache
def sources() -> Sources:
    """The sources of the fedlib that is running."""
    return Sources()


def _module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _parsed(name: str, source: bytes) -> Module:
    module = Module(name, {"": []})
    for statement in _without_docstring(ast.parse(source).body):
        if _is_for_types_only(statement):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module.imports |= _imports(statement)
            continue
        for bound in _bound(statement) or [""]:
            module.definitions.setdefault(bound, []).append(statement)
    return module


def _is_for_types_only(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    )


def _bound(statement: ast.stmt) -> list[str]:
    """The names that a top-level statement defines; none if it is there for its effect."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        parts = [part for target in targets for part in ast.walk(target)]
        if not any(isinstance(part, ast.Attribute | ast.Subscript) for part in parts):
            return [part.id for part in parts if isinstance(part, ast.Name)]
    return []


def _imports(statement: ast.stmt) -> dict[str, Definition]:
    """The names that imports anywhere in a statement bind."""
    bound: dict[str, Definition] = {}
    for part in ast.walk(statement):
        if isinstance(part, ast.Import):
            for alias in part.names:
                first = alias.name.split(".")[0]
                bound[alias.asname or first] = (alias.name if alias.asname else first, "")
        elif isinstance(part, ast.ImportFrom):
            if part.level or any(alias.name == "*" for alias in part.names):
                raise ValueError(f"line {part.lineno}: imports must name what they take, and from where")
            bound |= {alias.asname or alias.name: (str(part.module), alias.name) for alias in part.names}
    return bound


def _chains(node: ast.AST) -> Iterator[list[str]]:
    """Every name used, with the attributes that follow it: `engine.train` is ["engine", "train"]."""
    if isinstance(node, ast.Name):
        yield [node.id]
    elif isinstance(node, ast.Attribute) and (chain := _chain(node)):
        yield chain
    else:
        for child in ast.iter_child_nodes(node):
            yield from _chains(child)


def _chain(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := _chain(node.value)):
        return [*before, node.attr]
    return []


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return body[1:] if body and _is_text(body[0]) else body


def _is_text(statement: ast.stmt) -> bool:
    constant = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)


def _plain(value: object) -> object:
    """A syntax tree as lists and strings, the same in every Python."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if not isinstance(value, ast.AST):
        return ascii(value)
    fields = dict(ast.iter_fields(value))
    if isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        fields["body"] = _without_docstring(fields["body"])
    if isinstance(value, ast.JoinedStr):
        fields["values"] = _joined(value.values)
    kept = {name: part for name, part in fields.items() if name not in UNIMPORTANT and part is not None and part != []}
    return [type(value).__name__, *([name, _plain(part)] for name, part in sorted(kept.items()))]


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string, with neighbouring constants joined."""
    joined: list[ast.expr] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
            joined[-1] = ast.Constant(str(last.value) + str(part.value))
        elif not (isinstance(part, ast.Constant) and part.value == ""):
            joined.append(part)
    return joined
