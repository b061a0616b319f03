"""Same seed, same digits: the pinned settings, and the proof that instruction sets and thread counts change nothing."""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from played_rounds import pictures
from torch.nn import functional

import fedlib
from fedlib import engine, numerics
from fedlib.engine import convolution, dense
from fedlib.problem import Network, layout, models

pytestmark = pytest.mark.slow

ROOT = Path(fedlib.__file__).parents[1]
AVX2 = {"sse4_2", "avx", "avx2", "fma"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512_vbmi2"}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
HERE = numerics.processor_flags()
modern = pytest.mark.skipif(not {"avx2", "fma"} <= HERE, reason="older than AVX2: the digits are those of the floor")


# What is pinned


def test_a_processor_with_avx512_is_told_to_stay_with_avx2():
    chosen = numerics.settings(AVX512)
    assert chosen["ATEN_CPU_CAPABILITY"] == "avx2"
    assert chosen["DNNL_MAX_CPU_ISA"] == "AVX2"
    assert chosen["OPENBLAS_CORETYPE"] == "Haswell"
    assert chosen["NPY_DISABLE_CPU_FEATURES"] == "X86_V4 AVX512_ICL"
    assert chosen.items() >= ONE_THREAD.items()


def test_a_processor_with_avx2_gets_the_same_but_nothing_to_switch_off():
    expected = {name: value for name, value in numerics.settings(AVX512).items() if name != "NPY_DISABLE_CPU_FEATURES"}
    assert numerics.settings(AVX2) == expected


@pytest.mark.parametrize("flags", [{"sse4_2"}, {"sse4_2", "avx"}, AVX2 - {"fma"}])
def test_an_older_processor_gets_the_floor(flags):
    chosen = numerics.settings(flags)
    assert chosen["ATEN_CPU_CAPABILITY"] == "default"
    assert chosen["DNNL_MAX_CPU_ISA"] == "SSE41"
    assert chosen["OPENBLAS_CORETYPE"] == "Nehalem"
    assert chosen["MKL_CBWR"] == "COMPATIBLE"
    assert chosen.items() >= ONE_THREAD.items()


def test_where_nothing_is_known_of_the_processor_avx2_is_assumed():
    assert numerics.settings(set()) == numerics.settings(AVX2)


def test_flags_are_read_as_linux_lists_them(monkeypatch):
    listed = "processor\t: 0\nmodel name\t: some: thing\nflags\t\t: fpu avx2 fma\nprocessor\t: 1\nflags\t\t: other\n"
    monkeypatch.setattr("builtins.open", lambda name: io.StringIO(listed))
    assert numerics.processor_flags() == {"fpu", "avx2", "fma"}


def test_elsewhere_than_on_linux_no_flags_are_known(monkeypatch):
    def missing(name):
        raise FileNotFoundError(name)

    monkeypatch.setattr("builtins.open", missing)
    assert numerics.processor_flags() == set()


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setattr(os, "environ", {"MKL_CBWR": "COMPATIBLE"})
    with pytest.warns(UserWarning, match="numpy and torch was imported before fedlib"):
        numerics.pin()
    assert os.environ == numerics.settings(HERE) | {"MKL_CBWR": "COMPATIBLE"}


def test_importing_fedlib_late_is_no_trouble_when_all_is_set_already(monkeypatch):
    monkeypatch.setattr(os, "environ", numerics.settings(HERE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numerics.pin()


def in_a_process(told: str, under: tuple[str, ...] = (), **environment: str) -> str:
    """What a fresh interpreter prints, its numeric settings given by `environment` alone; `under` an emulator, say."""
    unset = {*numerics.settings(AVX512), "FEDLIB_THREADS"}
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    inherited["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    command = [*under, sys.executable, "-W", "error::UserWarning", "-c", told]
    return subprocess.run(command, env=inherited | environment, capture_output=True, text=True, check=True).stdout


def emulated(told: str, tries: int = 3) -> str:
    """`in_a_process` on an emulated Haswell. The emulator itself now and then crashes: that says nothing about
    digits."""
    for _ in range(tries):
        try:
            return in_a_process(told, under=("qemu-x86_64", "-cpu", "Haswell"))
        except subprocess.CalledProcessError as ended:
            if ended.returncode != -signal.SIGSEGV:
                raise
    pytest.skip(f"qemu-x86_64 crashed {tries} times: nothing was compared")


LIBRARIES_SAY = """
import fedlib, json
import numpy, torch
import fedlib.engine
features = numpy._core._multiarray_umath.__cpu_features__
beyond = [features["X86_V4"], features["AVX512_ICL"]]
print(json.dumps([torch.backends.cpu.get_cpu_capability(), torch.get_num_threads(), *beyond]))
"""


@modern
def test_the_libraries_obey():
    assert json.loads(in_a_process(LIBRARIES_SAY)) == ["AVX2", 1, False, False]


# The proof

SIMULATE = """
import fedlib, hashlib, json
import numpy as np
from conftest import synthetic_arrays
from fedlib import algorithms, simulate
from fedlib.problem import federation, models, partition
from fedlib.data.dataset import from_arrays
from fedlib.runs.simulation import Progress

LOCAL = {"participation": 0.5, "lr": 0.2, "batch": 16, "steps": 5}
EPOCHS = {"participation": 0.5, "lr": 0.1, "batch": 16, "epochs": 2, "momentum": 0.9}
METHODS = [("acfmo", {"participation": 0.5, "variant": "current"}, "softmax"), ("fedavg", LOCAL, "softmax"),
           ("fedavg", EPOCHS, "mlp200"), ("fedpac", LOCAL, "softmax"), ("feddbe", LOCAL, "softmax"),
           ("fedala", LOCAL, "softmax"), ("fedgh", {}, "softmax"), ("serveradam", {}, "softmax"),
           ("moon", EPOCHS | {"mu": 1.0}, "mlp200"), ("fedsr", EPOCHS | {"cluster_size": 5}, "mlp200"),
           ("fedyogi", EPOCHS, "mlp200"), ("fedacs", EPOCHS | {"participation": 0.2}, "mlp200")]
arrays = synthetic_arrays(600, 40, 5, 0)
dataset = from_arrays("synthetic", arrays, tuple("01234"), "synthetic")
parts = partition.dirichlet(arrays["y_train"], 20, 0.5, rng=np.random.default_rng(0))
found = {"partition": partition.fingerprint(parts)}
for name, options, network in METHODS:
    fed = federation.assemble(dataset, parts, models.build(network, 5, (40,)), 0, l2=0.01)
    end = Progress()
    records = simulate(algorithms.create(name, **options), fed, 10, progress=end, bar=False)
    digest = hashlib.sha256(records.to_csv().encode())
    for key in sorted(end.state):
        digest.update(end.state[key].numpy().tobytes())
    found[f"{name} {network}"] = digest.hexdigest()
rng = np.random.default_rng(0)
pictures, labels = rng.integers(0, 256, (24, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, 24)
both = {"x_train": pictures, "y_train": labels, "x_test": pictures, "y_test": labels}
dataset = from_arrays("pictures", both, tuple("0123456789"), "pictures")
fed = federation.assemble(dataset, np.split(np.arange(24), 4), models.build("lenet_tutorial", 10, (3, 32, 32)), 0)
end = Progress()
simulate(algorithms.create("fedavg", lr=0.1, batch=4, epochs=2), fed, 2, progress=end, bar=False)
found["fedavg lenet_tutorial"] = hashlib.sha256(end.state["weights"].numpy().tobytes()).hexdigest()
print(json.dumps(found))
"""


def simulated(**environment: str) -> dict[str, str]:
    return json.loads(in_a_process(SIMULATE, **environment))


@pytest.fixture(scope="module")
def as_it_is() -> dict[str, str]:
    """Digests of records and weights of short runs on this machine as it is."""
    return simulated()


@modern
def test_a_machine_limited_to_avx2_computes_the_same_bytes(as_it_is):
    """MKL obeys the first setting on Intel's processors; the second keeps the C library from AVX-512."""
    beyond = ",".join(f"-{flag}" for flag in ("AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD"))
    limited = simulated(MKL_ENABLE_INSTRUCTIONS="AVX2", GLIBC_TUNABLES=f"glibc.cpu.hwcaps={beyond}")
    assert limited == as_it_is


@modern
@pytest.mark.skipif(
    not shutil.which("qemu-x86_64"), reason="no qemu-x86_64 (Debian: qemu-user) to emulate another processor"
)
def test_an_emulated_intel_processor_without_avx512_computes_the_same_bytes(as_it_is):
    """The closest to another machine that one machine can come: every library sees a Haswell and chooses for it."""
    assert json.loads(emulated(SIMULATE)) == as_it_is


def test_what_mkl_would_choose_does_not_matter(as_it_is):
    """MKL takes other kernels on Intel's processors than on AMD's; asking it for its oldest stands for all of them."""
    assert simulated(MKL_CBWR="COMPATIBLE") == as_it_is


def test_freed_memory_is_not_used(as_it_is):
    """glibc overwrites whatever is freed. Compiled loops pass addresses on, which keeps no array alive."""
    assert simulated(MALLOC_PERTURB_="165") == as_it_is


@pytest.mark.parametrize(("library", "ours"), [("2", "1"), ("1", "3")])
def test_the_number_of_threads_changes_no_byte(as_it_is, library, ours):
    assert simulated(OMP_NUM_THREADS=library, MKL_NUM_THREADS=library, FEDLIB_THREADS=ours) == as_it_is


# Digits of the building blocks on any processor with AVX2


def digits(values) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:12]


def dense_gradient(rng) -> torch.Tensor:
    network = models.build("mlp200", 10, (12, 12))
    x, y = torch.from_numpy(rng.random((90, 145), np.float32)), torch.from_numpy(rng.integers(0, 10, 90))
    blocks, weights = layout.blocks(network), 0.1 * torch.from_numpy(rng.standard_normal((1, 71_210), np.float32))
    return dense.stacked_gradients(blocks, weights, x, y, torch.arange(90)[None], torch.full((1, 90), 1 / 90))


def convolutional_gradient(rng) -> torch.Tensor:
    network = Network(models.build("cnn_fedsr", 10, (3, 32, 32)))
    images = network.inputs(torch.from_numpy(rng.integers(0, 256, (9, 32, 32, 3), np.uint8)))
    weights = 0.1 * torch.from_numpy(rng.standard_normal(122_570, np.float32))
    return convolution.gradient(network.layers, weights, images, torch.arange(9), torch.full((9,), 1 / 9))[0]


def cropped_training(network: str) -> engine.Trained:
    """Standardised pictures, cropped and flipped, with the losses seen."""
    fed = pictures(network, standardise="channel", crop=3, flip=True)
    work = engine.Work(lr=0.02, batch=4, epochs=2, momentum=0.5, weight_decay=0.01)
    return engine.train(fed, engine.Cohort(np.arange(4), fed.start), work, 1, losses=True)


def building_blocks() -> dict[str, str]:
    """Results of what the methods are made of, on fixed numbers."""
    rng = np.random.default_rng(0)
    a, b, tall = (rng.standard_normal(shape, dtype=np.float32) for shape in ((6, 10, 577), (6, 577, 16), (900, 577)))
    a, b, tall = (torch.from_numpy(values) for values in (a, b, tall))
    logits = engine.product(tall, b[0])
    return {
        "a dense network": digits(dense_gradient(rng)),
        "a convolutional network": digits(convolutional_gradient(rng)),
        "a dense network on cropped pictures": digits(cropped_training("mlp200").weights),
        "its losses": digits(cropped_training("mlp200").losses),
        "a convolutional network on cropped pictures": digits(cropped_training("lenet_tutorial").weights),
        "stacked products": digits(engine.product(a, b)),
        "a tall product": digits(logits),
        "a weighted sum": digits(engine.weighted_sum(tall[:, 0], tall)),
        "softmax": digits(torch.softmax(logits, dim=1)),
        "cross-entropy": digits(functional.cross_entropy(logits, torch.arange(900) % 16)),
        "sums": digits(tall.sum(0)),
        "means": digits(tall.mean(1)),
        "permutation": digits(np.random.default_rng(1).permutation(1000)),
        "Dirichlet": digits(np.random.default_rng(1).dirichlet(np.full(10, 0.5), 50)),
        "square roots": digits(engine.root(tall.abs())),
        "uniform weights": digits(torch.rand(1000, generator=torch.Generator().manual_seed(0))),
    }


SAVED = {
    "a dense network": "c51a7ba25f82",
    "a convolutional network": "79c4bb08dd89",
    "a dense network on cropped pictures": "8da56eab628b",
    "its losses": "8539e369f262",
    "a convolutional network on cropped pictures": "3442f3aea8ed",
    "stacked products": "f97e832d7022",
    "a tall product": "2f62c731704d",
    "a weighted sum": "5e491d16bfeb",
    "softmax": "cedab737341a",
    "cross-entropy": "3acd0c4a8f85",
    "sums": "140c7be3a4e6",
    "means": "8b90a533031a",
    "permutation": "9d55acfc7a87",
    "Dirichlet": "03bcdd9a155c",
    "square roots": "30f45166ec4c",
    "uniform weights": "20221bec9830",
}


@modern
def test_the_building_blocks_give_the_saved_digits_on_every_processor_with_avx2():
    told = "import fedlib, json, test_numerics; print(json.dumps(test_numerics.building_blocks()))"
    assert json.loads(in_a_process(told)) == SAVED


def test_the_native_mode_pins_threads_only():
    assert numerics.settings(AVX512, "native") == numerics.THREADS


def test_an_unknown_mode_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="must be one of reproducible, native"):
        numerics.settings(AVX2, "fast")
