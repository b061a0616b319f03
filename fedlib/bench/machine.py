"""What the numbers were measured on."""

import os
import platform
from datetime import UTC, datetime

from fedlib.bench.referee import cores
from fedlib.numerics import processor_flags
from fedlib.report.provenance import commit, versions
from fedlib.surroundings import REPOSITORY

BUSY = 0.3  # load average per core above which other programs disturb


def processor() -> str:
    """The processor's name as Linux lists it."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def instruction_set() -> str:
    """The widest vector instructions, which contestants other than the engine may use."""
    flags = processor_flags()
    return next((name for name, flag in (("AVX-512", "avx512f"), ("AVX2", "avx2")) if flag in flags), "")


def facts(peers: dict[str, str]) -> dict:
    """Processor, memory, versions, commit, date, and how busy the machine was before the start."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": ", ".join(filter(None, [processor(), instruction_set()])),
        "cores": cores(),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
        "versions": versions(),
        "peers": peers,
        "commit": commit(REPOSITORY),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
