"""What one round costs: rate, delay and energy of computing and of sending (FCBAFL, equations 14 to 22)."""

import numpy as np

from fedlib.wireless.devices import Devices


def rate_bits_per_s(devices: Devices, share: np.ndarray) -> np.ndarray:
    """R_n of equation (16): Shannon rate on a share b_n of the band."""
    return shannon_rate_bits_per_s(share, devices.snr, devices.bandwidth_hz)


def shannon_rate_bits_per_s(share: np.ndarray, snr: np.ndarray, bandwidth_hz: float) -> np.ndarray:
    """Rate on a share of the band, `snr` being that on the whole band: noise grows with the share."""
    return share * bandwidth_hz * np.log1p(snr / share) / np.log(2)


def transmit_delay_s(devices: Devices, share: np.ndarray) -> np.ndarray:
    """T_n^co of equation (17)."""
    return devices.payload_bits / rate_bits_per_s(devices, share)


def transmit_energy_j(devices: Devices, share: np.ndarray) -> np.ndarray:
    """E_n^co of equation (18)."""
    return devices.power_w * transmit_delay_s(devices, share)


def compute_delay_s(devices: Devices, frequency_hz: np.ndarray) -> np.ndarray:
    """Q_l T_n^cp: equation (14) over all local iterations."""
    return devices.cycles / frequency_hz


def compute_energy_j(devices: Devices, frequency_hz: np.ndarray) -> np.ndarray:
    """Q_l E_n^cp: equation (15) over all local iterations."""
    return devices.cycles * frequency_hz * frequency_hz * devices.capacitance


def delay_s(devices: Devices, share: np.ndarray, frequency_hz: np.ndarray) -> np.ndarray:
    """How long each device takes, left side of equation (21); the round takes the maximum, equation (19)."""
    return transmit_delay_s(devices, share) + compute_delay_s(devices, frequency_hz)


def energy_j(devices: Devices, share: np.ndarray, frequency_hz: np.ndarray) -> np.ndarray:
    """E_g of equation (22): energy of all devices in one round."""
    return np.sum(transmit_energy_j(devices, share) + compute_energy_j(devices, frequency_hz), axis=-1)


def seconds_saved_per_share(devices: Devices, share: np.ndarray) -> np.ndarray:
    """-dT_n^co/db_n, positive and falling in b_n: the rate is concave in the share, so the delay is convex."""
    return delay_slope_s(share, devices.snr, devices.payload_bits, devices.bandwidth_hz)


def delay_slope_s(share: np.ndarray, snr: np.ndarray, payload_bits: np.ndarray, bandwidth_hz: float) -> np.ndarray:
    """How fast the delay of sending falls with the share, element by element."""
    nats = np.log1p(snr / share)
    rate_slope = nats - snr / (share + snr)  # dR/db in units of B / ln 2
    return payload_bits * np.log(2) / bandwidth_hz * rate_slope / (share * nats * share * nats)
