"""torchvision's downloads of MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100.

torchvision checks the MD5 of every archive before it opens it, keeps finished files and fetches only those missing, so
an interruption costs only the file being downloaded. torchvision has no time limit of its own; a probe finds out in
seconds when there is no network.
"""

import http.client
import importlib
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from fedlib.data.dataset import Arrays
from fedlib.data.errors import FetchFailed

PROBE_SECONDS = 5
SOCKET_SECONDS = 20
CLASS = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "cifar10": "CIFAR10", "cifar100": "CIFAR100"}


def import_datasets() -> ModuleType:
    """`torchvision.datasets`, even with a torch build for which the wheel's compiled operators do not load.

    torchvision cannot be imported without its operators for object detection. Nothing here needs them, so they are
    declared (not implemented), but only after a plain import failed: declaring them twice is an error too.
    """
    try:
        return importlib.import_module("torchvision.datasets")
    except RuntimeError:
        for module in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[module]
        declare_operators()
        return importlib.import_module("torchvision.datasets")


def declare_operators() -> None:
    """Names and signatures of torchvision's operators, without bodies."""
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def probe(address: str) -> str:
    """Empty if the host of `address` answers within `PROBE_SECONDS`, else why not."""
    outcome = [f"no answer within {PROBE_SECONDS} s"]

    def ask() -> None:
        try:
            request = urllib.request.Request(address, method="HEAD")
            urllib.request.urlopen(request, timeout=PROBE_SECONDS).close()
            outcome[0] = ""
        except urllib.error.HTTPError:
            outcome[0] = ""  # a refusal is an answer too: the host is there
        except (OSError, http.client.HTTPException) as error:
            outcome[0] = str(getattr(error, "reason", error))

    # Looking up a name has no time limit of its own, hence the thread.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return outcome[0]


@contextmanager
def socket_timeout(seconds: float) -> Iterator[None]:
    """torchvision opens its connections without a time limit; the process-wide default gives them one."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def download(name: str, workspace: Path) -> Arrays:
    """Both parts of a data set through torchvision, as raw arrays in torchvision's order."""
    try:
        dataset = getattr(import_datasets(), CLASS[name])
    except (ImportError, RuntimeError) as error:
        raise FetchFailed(f"torchvision cannot be imported: {error}") from error
    addresses = getattr(dataset, "mirrors", None) or [dataset.url]
    if reason := probe(addresses[0]):
        raise FetchFailed(f"{reason} ({addresses[0]})")
    with socket_timeout(SOCKET_SECONDS):
        train, test = (dataset(str(workspace / "torchvision"), train=part, download=True) for part in (True, False))
    return {
        "x_train": np.asarray(train.data),
        "y_train": np.asarray(train.targets),
        "x_test": np.asarray(test.data),
        "y_test": np.asarray(test.targets),
    }
