"""What besides the code may decide digits, and is recorded: libraries and processor."""

import hashlib
import platform
from functools import cache
from importlib import metadata

from fedlib import numerics

LIBRARIES = ("torch", "numpy", "numba", "llvmlite")


@cache
def versions() -> dict[str, str]:
    """The libraries that compute, without the names of their builds (`+cpu`): these give the same digits."""
    return {name: metadata.version(name).split("+")[0] for name in LIBRARIES}


@cache
def processor() -> str:
    """The instruction set that the numeric libraries use here. Digits are the same on all x86-64 CPUs with AVX2."""
    return " ".join([platform.machine(), numerics.instructions()]).strip()


def digest() -> str:
    """The libraries' versions in eight letters, for the name of a folder."""
    return hashlib.sha256(repr(sorted(versions().items())).encode()).hexdigest()[:8]


def differences(recorded: dict[str, str]) -> str:
    """In words, how recorded versions differ from those here; empty if they do not."""
    here = versions()
    return ", ".join(
        f"{name} {recorded[name]} (here {here.get(name)})" for name in recorded if here.get(name) != recorded[name]
    )
