"""The methods, one file each; each reads like its paper's algorithm box.

`create("fedavg", participation=0.1, epochs=5)` makes one by its lower-case name, `REGISTRY` lists them all. A method is
a frozen dataclass of hyper-parameters with `init` (the first state), `round` (from one state to the next) and `measure`
(what is recorded): see `algorithm`. To add one, write one file here; it is registered automatically.
"""

import importlib
import pkgutil

from fedlib.algorithms.algorithm import Algorithm

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def _methods(base: type[Algorithm]) -> list[type[Algorithm]]:
    return [method for child in base.__subclasses__() for method in [child, *_methods(child)]]


REGISTRY: dict[str, type[Algorithm]] = {method.__name__.lower(): method for method in _methods(Algorithm)}


def create(name: str, **options) -> Algorithm:
    """A method by name with its hyper-parameters; for an unknown name, the error lists the valid ones."""
    if name not in REGISTRY:
        raise ValueError(f"unknown algorithm {name!r}; known: {', '.join(sorted(REGISTRY))}")
    valid = REGISTRY[name].__dataclass_fields__
    if unknown := sorted(set(options) - set(valid)):
        raise ValueError(f"{name} has no option {', '.join(unknown)}; it has: {', '.join(valid)}")
    return REGISTRY[name](**options)


__all__ = ["REGISTRY", "Algorithm", "create"]
