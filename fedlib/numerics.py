"""Same seed, same digits: pin what the numeric libraries may choose by themselves.

torch (MKL, oneDNN), NumPy and SciPy (OpenBLAS) pick their kernels by the processor they find, and sums change in the
last digit with the kernel and with the number of threads. This module is imported before any of them and sets one
choice that every x86-64 machine of the last ten years can make: AVX2 and one thread per process. Work is spread over
processes instead. FEDLIB_NUMERICS=native leaves the instruction set to the libraries: results may differ in the last
digits between machines, and `make bench` measures what that gains. (The compiled loops of `engine.compiled` write their
sums out and need no pinning.)
"""

import contextlib
import ctypes
import os
import sys
import warnings

AVX2 = {"MKL_CBWR": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
FLOOR = {
    "MKL_CBWR": "COMPATIBLE",
    "ATEN_CPU_CAPABILITY": "default",
    "DNNL_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
}
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# NumPy warns about names that the processor lacks, so only those present are switched off.
NUMPY_BEYOND_AVX2 = {
    "X86_V4": "avx512bw",
    "AVX512_ICL": "avx512_vbmi2",
    "AVX512_SPR": "avx512_fp16",
}

MODES = ("reproducible", "native")
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt


def processor_flags() -> set[str]:
    """What the processor can do, as Linux lists it; empty where there is no such list."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())
    except OSError:
        return set()


def settings(flags: set[str], chosen: str = "reproducible") -> dict[str, str]:
    """The environment that fixes the digits on a processor with these flags; in the mode "native" only the threads."""
    if chosen not in MODES:
        raise ValueError(f"FEDLIB_NUMERICS={chosen!r} must be one of {', '.join(MODES)}")
    if chosen == "native":
        return THREADS
    isa = AVX2 if not flags or {"avx2", "fma"} <= flags else FLOOR
    beyond = " ".join(name for name, flag in NUMPY_BEYOND_AVX2.items() if flag in flags)
    return THREADS | isa | ({"NPY_DISABLE_CPU_FEATURES": beyond} if beyond else {})


def mode() -> str:
    """How digits are fixed in this process: one of `MODES`."""
    return os.environ.get("FEDLIB_NUMERICS", "reproducible")


def instructions() -> str:
    """The instruction set in use: "avx2", "sse4" on processors without it, or what the libraries choose."""
    if mode() == "native":
        return "native"
    return "avx2" if settings(processor_flags())["MKL_CBWR"] == "AVX2" else "sse4"


def pin() -> None:
    """Write the settings into the environment and warn when it is too late.

    What the user has set stays, except OpenBLAS's threads: they would change digits, and the cores are used otherwise.
    """
    late = [name for name in ("numpy", "torch") if name in sys.modules]
    wanted = settings(processor_flags(), mode())
    missing = any(name not in os.environ for name in wanted)
    for name, value in wanted.items():
        os.environ.setdefault(name, value)
    os.environ["OPENBLAS_NUM_THREADS"] = THREADS["OPENBLAS_NUM_THREADS"]
    if late and missing:
        warnings.warn(
            f"{' and '.join(late)} was imported before fedlib: the last digits may differ from the saved ones. "
            "Import fedlib first.",
            stacklevel=3,
        )


def keep_memory() -> None:
    """Let glibc keep freed memory instead of returning it after every large tensor: page faults are slow.

    Results do not change. Without glibc this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(MMAP_THRESHOLD, 2**30)
        libc.mallopt(TRIM_THRESHOLD, 2**31 - 1)


pin()
keep_memory()
