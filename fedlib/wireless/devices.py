"""The devices of one cell: channel, data, processor (FCBAFL, Section 4, first paragraph)."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

BITS_PER_MEGABYTE = 8e6
WATT_PER_DBM = 1e-3


@dataclass(frozen=True)
class Scenario:
    """What a draw of devices is drawn from: first what the paper prints, then what it leaves open."""

    bandwidth_hz: float = 1e6  # B, shared by all devices
    noise_dbm_per_hz: float = -174.0  # N_0; printed per MHz, which would be 60 dB below thermal noise
    power_w: float = 0.5  # p_n
    payload_bits: float = 5e5  # s_n, model and gradient
    cycles_per_bit: tuple[float, float] = (10.0, 30.0)  # c_n, uniform
    data_megabytes: tuple[float, float] = (5.0, 10.0)  # d_n, uniform
    frequency_hz: tuple[float, float] = (1e9, 2e9)  # f_n^min, f_n^max
    local_iterations: int = 20  # Q_l
    capacitance: float = 1e-28  # sigma; printed 1e-23, which costs one device half a megajoule per round

    fixed_hz: float = 2e9  # f_n while the shares are chosen, P_1; the paper fixes a frequency and does not print it
    devices: int = 100  # N; the learning part prints 100, the energy figures do not say
    radius_km: float = 0.5  # devices are spread evenly over a disc
    closest_km: float = 0.01  # no device stands nearer to the server than this
    deadline_s: float = 30.0  # Q_T


@dataclass(frozen=True)
class Devices:
    """Devices as arrays that broadcast to `(..., devices)`; the band belongs to the whole cell."""

    gain: np.ndarray  # h_n, path loss times fading
    power_w: np.ndarray  # p_n
    payload_bits: np.ndarray  # s_n
    data_bits: np.ndarray  # d_n
    cycles_per_bit: np.ndarray  # c_n
    frequency_min_hz: np.ndarray  # f_n^min
    frequency_max_hz: np.ndarray  # f_n^max
    capacitance: np.ndarray  # sigma
    passes: np.ndarray  # over the data in a round: Q_l, for the paper counts each iteration as one over all d_n
    bandwidth_hz: float  # B
    noise_w_per_hz: float  # N_0

    def __post_init__(self) -> None:
        names = [field.name for field in fields(self) if field.type is np.ndarray]
        arrays = np.broadcast_arrays(*(np.asarray(getattr(self, name), dtype=np.float64) for name in names))
        if arrays[0].ndim == 0:
            raise ValueError("Devices need an axis of devices: give at least one field as a list or an array.")
        for name, array in zip(names, arrays, strict=True):
            object.__setattr__(self, name, array)
        for field in fields(self):
            value = getattr(self, field.name)
            if not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0)):
                raise ValueError(f"{field.name} must be positive and finite everywhere; got {value}.")
        if np.any(self.frequency_min_hz > self.frequency_max_hz):
            raise ValueError("frequency_min_hz must not exceed frequency_max_hz.")

    def __getitem__(self, index: object) -> "Devices":
        """Some instances or devices: `devices[3]` is draw 3, `devices[..., :50]` the first fifty of every draw."""
        arrays = {field.name: getattr(self, field.name)[index] for field in fields(self) if field.type is np.ndarray}
        return replace(self, **arrays)

    def broadcast_to(self, shape: tuple[int, ...]) -> "Devices":
        """The same devices in every instance of a larger array, of deadlines for example."""
        return replace(self, gain=np.broadcast_to(self.gain, shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.gain.shape

    @cached_property
    def snr(self) -> np.ndarray:
        """p_n h_n / (B N_0): signal to noise if the device had the whole band."""
        return self.power_w * self.gain / (self.bandwidth_hz * self.noise_w_per_hz)

    @cached_property
    def cycles(self) -> np.ndarray:
        """Q_l c_n d_n: processor cycles of one round."""
        return self.passes * self.cycles_per_bit * self.data_bits


def path_gain(distance_km: np.ndarray | float) -> np.ndarray:
    """Mean channel gain at a distance: path loss 128.1 + 37.6 log10(d) dB with d in km."""
    loss_db = 128.1 + 37.6 * np.log10(distance_km)
    return 10 ** (-loss_db / 10)


def draw_devices(scenario: Scenario, rng: np.random.Generator, draws: tuple[int, ...] = ()) -> Devices:
    """Devices of `draws` independent cells, shape `(*draws, scenario.devices)`.

    A generator in the same state gives the same fades and relative places for every radius, so that settings can be
    compared pairwise.
    """
    shape = (*draws, scenario.devices)
    fraction_of_area = rng.random(shape)
    fading = rng.exponential(size=shape)  # squared magnitude of a Rayleigh coefficient of unit power
    distance_km = np.maximum(scenario.radius_km * np.sqrt(fraction_of_area), scenario.closest_km)
    slowest_hz, fastest_hz = scenario.frequency_hz
    return Devices(
        gain=path_gain(distance_km) * fading,
        power_w=np.array(scenario.power_w),
        payload_bits=np.array(scenario.payload_bits),
        data_bits=BITS_PER_MEGABYTE * rng.uniform(*scenario.data_megabytes, size=shape),
        cycles_per_bit=rng.uniform(*scenario.cycles_per_bit, size=shape),
        frequency_min_hz=np.array(slowest_hz),
        frequency_max_hz=np.array(fastest_hz),
        capacitance=np.array(scenario.capacitance),
        passes=np.array(scenario.local_iterations),
        bandwidth_hz=scenario.bandwidth_hz,
        noise_w_per_hz=WATT_PER_DBM * 10 ** (scenario.noise_dbm_per_hz / 10),
    )
