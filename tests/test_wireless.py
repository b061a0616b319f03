"""Energy, delay, frequency and bandwidth of a round: hand-checked numbers, optimality conditions, random instances."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from fedlib import wireless
from fedlib.wireless.costs import seconds_saved_per_share
from fedlib.wireless.feasibility import share_for_delay
from fedlib.wireless.monotone import decreasing_root

SMALL = wireless.Scenario(devices=20)


def draw(seed, draws=(), **changes):
    return wireless.draw_devices(replace(SMALL, **changes), np.random.default_rng(seed), draws)


def alternation_by_lbfgsb(devices, deadline_s):
    return wireless.alternation(devices, deadline_s, method="lbfgsb")


def two_devices(snr=(7.5, 1.5), cycles=(1e9, 1e9), **changes):
    """B = 1 MHz, N_0 = 1 nW/Hz, p = 0.5 W: the noise of the whole band is 1 mW, so h = snr * 2e-3. s = 0.5 Mbit."""
    fields = {
        "gain": np.array(snr) * 2e-3,
        "power_w": 0.5,
        "payload_bits": 5e5,
        "data_bits": np.array(cycles) / 10,
        "cycles_per_bit": 10.0,
        "frequency_min_hz": 1e9,
        "frequency_max_hz": 2e9,
        "capacitance": 1e-28,
        "bandwidth_hz": 1e6,
        "noise_w_per_hz": 1e-9,
        "passes": 1,
    }
    return wireless.Devices(**(fields | changes))


# --- hand-checked numbers -------------------------------------------------------------------------------------------


def test_two_devices_on_half_the_band_cost_what_a_pencil_says():
    # Device 0: 7.5 / 0.5 = 15, log2(16) = 4, R = 4 * 0.5 MHz = 2 Mbit/s; 0.5 Mbit: 0.25 s, 0.5 W * 0.25 s = 0.125 J.
    # Device 1: 1.5 / 0.5 = 3, log2(4) = 2, R = 1 Mbit/s, 0.5 s, 0.25 J.
    # Computing 1e9 cycles at 1 GHz: 1 s and 1e9 * 1e18 * 1e-28 = 0.1 J; at 2 GHz: 0.5 s and 0.4 J.
    devices, half = two_devices(), np.array([0.5, 0.5])
    np.testing.assert_allclose(wireless.rate_bits_per_s(devices, half), [2e6, 1e6])
    np.testing.assert_allclose(wireless.transmit_energy_j(devices, half), [0.125, 0.25])
    frequency_hz = np.array([1e9, 2e9])
    np.testing.assert_allclose(wireless.compute_energy_j(devices, frequency_hz), [0.1, 0.4])
    np.testing.assert_allclose(wireless.delay_s(devices, half, frequency_hz), [1.25, 1.0])
    np.testing.assert_allclose(wireless.energy_j(devices, half, frequency_hz), 0.875)


def test_optimal_frequency_uses_up_the_deadline_but_stays_in_its_range():
    # 1.3 s less 0.25 s leave 1.05 s for 1e9 cycles: 0.95 GHz, raised to 1 GHz. 1.3 - 0.5 = 0.8 s: 1.25 GHz.
    half = np.array([0.5, 0.5])
    np.testing.assert_allclose(wireless.optimal_frequency(two_devices(), half, 1.3), [1e9, 1.25e9])
    # 0.9 s: device 0 has 0.65 s, 1.538 GHz; device 1 has 0.4 s, 2.5 GHz, above its 2 GHz. 0.4 s: no time left at all.
    np.testing.assert_allclose(wireless.optimal_frequency(two_devices(), half, 0.9), [1e9 / 0.65, np.nan])
    assert np.isnan(wireless.optimal_frequency(two_devices(), half, 0.4)).tolist() == [True, True]


def test_a_device_that_cannot_be_in_time_hurries_and_is_late():
    # As above: at 0.9 s device 1 would need 2.5 GHz and gets 2 GHz; at 0.4 s its sending alone takes 0.5 s, (31) is
    # negative, and it hurries all the same.
    half = np.array([0.5, 0.5])
    np.testing.assert_allclose(wireless.hurried_frequency(two_devices(), half, 1.3), [1e9, 1.25e9])
    np.testing.assert_allclose(wireless.hurried_frequency(two_devices(), half, 0.9), [1e9 / 0.65, 2e9])
    np.testing.assert_allclose(wireless.hurried_frequency(two_devices(), half, 0.4), [2e9, 2e9])


def test_passes_over_the_data_may_differ_from_device_to_device():
    devices = two_devices(passes=np.array([0.5, 2.0]))
    np.testing.assert_allclose(devices.cycles, [5e8, 2e9])
    np.testing.assert_allclose(wireless.compute_delay_s(devices, np.array([1e9, 2e9])), [0.5, 1.0])


@pytest.mark.parametrize("method", ["exact", "lbfgsb"])
def test_equal_devices_get_equal_shares(method):
    plan = wireless.optimal_bandwidth(two_devices(snr=(1.5, 1.5)), 10.0, method=method)
    np.testing.assert_allclose(plan.share, [0.5, 0.5], rtol=1e-7)
    np.testing.assert_allclose(plan.transmit_energy_j, 0.5)


@pytest.mark.parametrize("method", ["exact", "lbfgsb"])
def test_the_deadline_forces_half_the_band_on_the_stronger_device(method):
    # At half the band the next bit of share saves in proportion to (ln(1+x) - x/(1+x)) / ln(1+x)^2: device 0 (x = 15)
    # (2.773 - 0.938) / 7.687 = 0.239, device 1 (x = 3) (1.386 - 0.75) / 1.922 = 0.331. Device 0 wants less.
    devices = two_devices(cycles=(3e9, 1e9))
    saved = seconds_saved_per_share(devices, np.full(2, 0.5))
    np.testing.assert_allclose(saved[0] / saved[1], 0.2387 / 0.3311, rtol=1e-3)
    assert wireless.optimal_bandwidth(devices, 10.0).share[0] < 0.49
    # With 3e9 cycles at 2 GHz it computes for 1.5 s; a deadline of 1.75 s leaves 0.25 s for sending, which is what half
    # the band gives (see above). So (0.5, 0.5) and 0.125 J + 0.25 J.
    plan = wireless.optimal_bandwidth(devices, 1.75, method=method)
    np.testing.assert_allclose(plan.share, [0.5, 0.5], rtol=1e-9)
    np.testing.assert_allclose(plan.transmit_energy_j, 0.375)
    np.testing.assert_allclose(plan.feasibility.share_min[0], 0.5)


def test_smallest_share_agrees_with_a_power_of_two():
    # b = 0.1: 1.5 / 0.1 = 15, 4 bit/s/Hz, R = 0.4 Mbit/s, 0.5 Mbit take 1.25 s.
    np.testing.assert_allclose(share_for_delay(two_devices(snr=(1.5, 1.5)), np.array([1.25, 0.5])), [0.1, 0.5])


def test_path_gain_at_one_kilometre_and_one_decade_nearer():
    np.testing.assert_allclose(10 * np.log10(wireless.path_gain(np.array([1.0, 0.1]))), [-128.1, -90.5])


def test_printed_schemes_share_out_as_the_paper_defines_them():
    devices = two_devices(snr=(6.0, 2.0))
    np.testing.assert_allclose(wireless.equal_share(devices), [0.5, 0.5])
    np.testing.assert_allclose(wireless.snr_share(devices), [0.75, 0.25])
    np.testing.assert_allclose(wireless.snr_share(devices, np.array([0.1, 0.5])), [0.1 + 0.4 * 0.75, 0.5 + 0.4 * 0.25])
    u = np.random.default_rng(5).random(2)
    np.testing.assert_allclose(wireless.random_share(devices, np.random.default_rng(5)), u / u.sum())
    np.testing.assert_allclose(wireless.average_frequency(devices), [1.5e9, 1.5e9])
    np.testing.assert_allclose(wireless.average_frequency(devices, np.array([1.2e9, 2e9])), [1.6e9, 2e9])


# --- the draw -------------------------------------------------------------------------------------------------------


def test_drawn_devices_follow_the_printed_ranges_and_unit_fading():
    devices = draw(0, draws=(500,), radius_km=0.01, closest_km=0.01)  # all at ten metres: the gain is fading alone
    fading = devices.gain / wireless.path_gain(np.array(0.01))
    assert devices.shape == (500, 20)
    assert abs(fading.mean() - 1) < 0.05 and abs((fading < np.log(2)).mean() - 0.5) < 0.02  # exponential: median ln 2
    assert devices.data_bits.min() >= 4e7 and devices.data_bits.max() <= 8e7  # 5 to 10 MB
    assert abs(devices.cycles_per_bit.mean() - 20) < 0.2
    np.testing.assert_allclose(devices.noise_w_per_hz, 3.981e-21, rtol=1e-3)  # -174 dBm/Hz


def test_devices_are_spread_evenly_over_the_disc():
    near, far = draw(1, draws=(500,), radius_km=0.5), draw(1, draws=(500,), radius_km=1.0)
    ratio_db = 10 * np.log10(near.gain / far.gain)
    np.testing.assert_allclose(np.median(ratio_db), 37.6 * np.log10(2))  # same draw, twice the distance
    fading = draw(1, draws=(500,), radius_km=0.5, closest_km=0.5).gain / wireless.path_gain(np.array(0.5))
    distance_km = (near.gain / fading / wireless.path_gain(np.array(1.0))) ** (-1 / 3.76)
    assert abs((distance_km < 0.25).mean() - 0.25) < 0.015  # half the radius holds a quarter of the area


def test_impossible_devices_and_deadlines_are_refused():
    with pytest.raises(ValueError, match="gain must be positive"):
        two_devices(gain=np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="frequency_min_hz must not exceed"):
        two_devices(frequency_min_hz=3e9)
    with pytest.raises(ValueError, match="axis of devices"):
        two_devices(gain=1.0, data_bits=1.0)
    with pytest.raises(ValueError, match="deadline_s must be positive"):
        wireless.joint_optimum(two_devices(), 0.0)
    with pytest.raises(ValueError, match="exact, lbfgsb"):
        wireless.optimal_bandwidth(two_devices(), 1.0, method="newton")


# --- optimality -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.floats(25, 60), st.floats(0.05, 2.0), st.integers(1, 40))
def test_optimal_bandwidth_meets_the_kkt_conditions(seed, deadline_s, radius_km, count):
    devices = draw(seed, radius_km=radius_km, devices=count)
    plan = wireless.optimal_bandwidth(devices, deadline_s)
    if not plan.feasibility.feasible:
        assert np.isnan(plan.share).all()
        return
    price = devices.power_w * seconds_saved_per_share(devices, plan.share)  # -dE/db
    bound = plan.share <= plan.feasibility.share_min * (1 + 1e-9)
    assert abs(plan.share.sum() - 1) < 1e-12
    assert (plan.share >= plan.feasibility.share_min * (1 - 1e-12)).all()
    if (~bound).any():
        np.testing.assert_allclose(price[~bound], price[~bound].mean(), rtol=1e-9)
        assert (price[bound] <= price[~bound].mean() * (1 + 1e-9)).all()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.floats(25, 60), st.floats(0.05, 2.0), st.sampled_from([1e-29, 1e-28, 1e-27]))
def test_joint_optimum_meets_the_kkt_conditions(seed, deadline_s, radius_km, capacitance):
    """A device at the share where it just reaches f^min has a left and a right slope; the price lies between them."""
    devices = draw(seed, radius_km=radius_km, capacitance=capacitance)
    plan = wireless.joint_optimum(devices, deadline_s)
    if not plan.feasibility.feasible:
        assert np.isnan(plan.energy_j)
        return

    def total(share):
        frequency_hz = wireless.optimal_frequency(devices, share, deadline_s)
        return wireless.transmit_energy_j(devices, share) + wireless.compute_energy_j(devices, frequency_hz)

    step = 1e-5 * plan.share
    at_bound = plan.share - step <= plan.feasibility.share_min
    gain_right = (total(plan.share) - total(plan.share + step)) / step
    less = np.where(at_bound, plan.share, plan.share - step)
    gain_left = np.where(at_bound, np.inf, (total(less) - total(plan.share)) / step)
    assert gain_right.max() <= gain_left.min() * (1 + 1e-3)
    assert abs(plan.share.sum() - 1) < 1e-12
    assert (wireless.delay_s(devices, plan.share, plan.frequency_hz) <= deadline_s * (1 + 1e-9)).all()


def test_seconds_saved_per_share_is_the_slope_of_the_delay():
    devices, share = draw(3), np.random.default_rng(3).dirichlet(np.ones(20))
    step = 1e-6 * share
    slope = wireless.transmit_delay_s(devices, share - step) - wireless.transmit_delay_s(devices, share + step)
    np.testing.assert_allclose(seconds_saved_per_share(devices, share), slope / (2 * step), rtol=1e-6)


@pytest.mark.parametrize(("deadline_s", "radius_km", "count"), [(25.0, 0.5, 20), (30.0, 1.0, 100), (60.0, 0.1, 5)])
def test_both_solvers_reach_the_same_energy(deadline_s, radius_km, count):
    devices = draw(7, draws=(40,), radius_km=radius_km, devices=count)
    exact = wireless.optimal_bandwidth(devices, deadline_s)
    paper = wireless.optimal_bandwidth(devices, deadline_s, method="lbfgsb")
    assert exact.feasibility.feasible.sum() > 20
    np.testing.assert_allclose(paper.transmit_energy_j, exact.transmit_energy_j, rtol=1e-6)
    assert (np.nan_to_num(exact.transmit_energy_j) <= np.nan_to_num(paper.transmit_energy_j) * (1 + 1e-12)).all()


def test_both_solvers_agree_for_a_thousand_devices_at_their_bounds():
    devices = draw(8, devices=1000, bandwidth_hz=2e6)
    deadline_s = 40.0
    exact = wireless.optimal_bandwidth(devices, deadline_s)
    assert 0 < np.isclose(exact.share, exact.feasibility.share_min, rtol=1e-9).sum() < 1000
    paper = wireless.optimal_bandwidth(devices, deadline_s, method="lbfgsb")
    np.testing.assert_allclose(paper.transmit_energy_j, exact.transmit_energy_j, rtol=1e-6)


def test_no_allocation_of_a_thousand_instances_sends_with_less_energy_than_the_optimal_one():
    rng = np.random.default_rng(11)
    devices = draw(11, draws=(1000,))
    plan = wireless.optimal_bandwidth(devices, 30.0)
    needs = plan.feasibility.share_min
    rivals = {
        "RA": wireless.random_share(devices, rng, needs),
        "AA": wireless.equal_share(devices, needs),
        "SA": wireless.snr_share(devices, needs),
    }
    feasible = plan.feasibility.feasible
    assert feasible.sum() > 950
    for share in rivals.values():
        energy = wireless.transmit_energy_j(devices, share).sum(axis=-1)
        assert (plan.transmit_energy_j[feasible] <= energy[feasible] * (1 + 1e-12)).all()


def test_printed_allocations_that_meet_the_deadline_are_never_better_either():
    rng = np.random.default_rng(12)
    devices = draw(12, draws=(1000,))
    plan = wireless.optimal_bandwidth(devices, 40.0)
    for share in (wireless.random_share(devices, rng), wireless.equal_share(devices), wireless.snr_share(devices)):
        in_time = ~np.isnan(wireless.optimal_frequency(devices, share, 40.0)).any(axis=-1)
        energy = wireless.transmit_energy_j(devices, share).sum(axis=-1)
        assert in_time.any()
        assert (plan.transmit_energy_j[in_time] <= energy[in_time] * (1 + 1e-12)).all()


def test_no_frequency_of_a_thousand_instances_costs_less_than_the_optimal_one():
    rng = np.random.default_rng(13)
    devices = draw(13, draws=(1000,))
    share = wireless.equal_share(devices)
    optimal = wireless.optimal_frequency(devices, share, 30.0)
    feasible = ~np.isnan(optimal).any(axis=-1)
    least = wireless.energy_j(devices, share, optimal)[feasible]
    assert feasible.sum() > 950
    rivals = wireless.average_frequency(devices, optimal), wireless.random_frequency(devices, rng, optimal)
    for frequency_hz in rivals:
        assert (least <= wireless.energy_j(devices, share, frequency_hz)[feasible]).all()
        assert (wireless.delay_s(devices, share, frequency_hz)[feasible] <= 30.0 * (1 + 1e-12)).all()


def test_the_joint_optimum_is_below_every_scheme_and_the_alternation():
    devices = draw(14, draws=(1000,))
    joint = wireless.joint_optimum(devices, 28.0)
    needs, feasible = joint.feasibility.share_min, joint.feasibility.feasible
    shares = [wireless.equal_share(devices, needs), wireless.snr_share(devices, needs)]
    rivals = [wireless.energy_j(devices, b, wireless.optimal_frequency(devices, b, 28.0)) for b in shares]
    rivals.append(wireless.alternation(devices, 28.0).energy_j)
    for energy in rivals:
        assert (joint.energy_j[feasible] <= energy[feasible] * (1 + 1e-12)).all()
    assert np.mean(rivals[-1][feasible] / joint.energy_j[feasible]) > 1.001  # the alternation leaves something behind


@pytest.mark.parametrize("deadline_s", [1.8, 2.0, 2.5, 4.0])
def test_the_joint_optimum_of_two_devices_equals_a_fine_grid(deadline_s):
    devices = two_devices(cycles=(3e9, 1e9))
    first = np.linspace(0.001, 0.999, 200_001)
    share = np.stack([first, 1 - first], axis=-1)
    grid = wireless.energy_j(devices, share, wireless.optimal_frequency(devices, share, deadline_s))
    plan = wireless.joint_optimum(devices, deadline_s)
    np.testing.assert_allclose(plan.energy_j, np.nanmin(grid), rtol=1e-7)
    assert plan.energy_j <= np.nanmin(grid) * (1 + 1e-12)
    np.testing.assert_allclose(plan.share[0], first[np.nanargmin(grid)], atol=1e-4)


def test_shares_chosen_at_a_lower_frequency_are_rarer_and_dearer():
    devices = draw(16, draws=(200,), devices=60)
    fast, slow = (wireless.alternation(devices, 30.0, hertz) for hertz in (2e9, 1.5e9))
    np.testing.assert_array_equal(fast.share, wireless.alternation(devices, 30.0).share)  # f_max is the default
    both = fast.feasibility.feasible & slow.feasibility.feasible
    assert fast.feasibility.feasible.sum() > slow.feasibility.feasible.sum() and both.any()
    assert (slow.feasibility.share_min >= fast.feasibility.share_min).all()
    assert (fast.transmit_energy_j[both] <= slow.transmit_energy_j[both] * (1 + 1e-12)).all()


def test_a_second_pass_of_the_alternation_changes_nothing():
    devices = draw(15, draws=(50,))
    first = wireless.alternation(devices, 30.0)
    again = wireless.optimal_bandwidth(devices, 30.0 * (1 + 1e-12), first.frequency_hz)
    feasible = first.feasibility.feasible
    np.testing.assert_allclose(again.share[feasible], first.share[feasible], rtol=1e-6)


def test_without_computing_energy_the_joint_optimum_is_the_optimal_bandwidth():
    devices = draw(16, draws=(50,), capacitance=1e-45)
    joint, bandwidth = wireless.joint_optimum(devices, 30.0), wireless.optimal_bandwidth(devices, 30.0)
    np.testing.assert_allclose(joint.share, bandwidth.share, rtol=1e-9)


# --- what follows from the model ------------------------------------------------------------------------------------


def test_more_time_never_costs_more_energy():
    devices = draw(17, draws=(100,))
    deadlines_s = np.linspace(26, 80, 12)[:, None]
    joint = wireless.joint_optimum(devices, deadlines_s).energy_j
    sending = wireless.optimal_bandwidth(devices, deadlines_s).transmit_energy_j
    equal = wireless.equal_share(devices)
    frequency_only = wireless.energy_j(devices, equal, wireless.optimal_frequency(devices, equal, deadlines_s))
    for energy in (joint, sending, frequency_only):
        assert energy.shape == (12, 100)
        feasible = ~np.isnan(energy)
        assert (feasible[1:] >= feasible[:-1]).all()
        assert (energy[1:] <= energy[:-1] * (1 + 1e-12))[feasible[:-1]].all()


def test_between_two_plans_lies_a_plan_that_is_in_time_and_costs_no_more_than_their_mean():
    """P_0 is convex in shares and frequencies together, although the paper says otherwise."""
    rng = np.random.default_rng(19)
    devices = draw(19, draws=(1000,))
    needs = wireless.feasibility(devices, 30.0).share_min
    shares = [wireless.random_share(devices, rng, needs) for _ in range(2)]
    slowest = [wireless.optimal_frequency(devices, b, 30.0) for b in shares]
    frequencies = [wireless.random_frequency(devices, rng, hz) for hz in slowest]
    ends = [wireless.energy_j(devices, b, f) for b, f in zip(shares, frequencies, strict=True)]
    share, frequency_hz = sum(shares) / 2, sum(frequencies) / 2
    feasible = ~np.isnan(ends[0])
    assert feasible.sum() > 950
    assert (wireless.delay_s(devices, share, frequency_hz)[feasible] <= 30.0 * (1 + 1e-12)).all()
    assert (wireless.energy_j(devices, share, frequency_hz) <= (ends[0] + ends[1]) / 2 * (1 + 1e-12))[feasible].all()


def test_sharing_by_snr_never_sends_with_less_energy_than_sharing_equally():
    """The next bit of share saves a weak channel more than a strong one, so SA moves share the wrong way.

    The energy is convex in the shares. At equal shares the saving -dE/db falls with the SNR while SA's change of share
    rises with it; by Chebyshev's sum inequality the linear term of the change in energy is not negative. The paper has
    the opposite order.
    """
    for radius_km in (0.1, 0.5, 2.0):
        devices = draw(18, draws=(1000,), radius_km=radius_km)
        by_snr = wireless.transmit_energy_j(devices, wireless.snr_share(devices)).sum(axis=-1)
        equally = wireless.transmit_energy_j(devices, wireless.equal_share(devices)).sum(axis=-1)
        assert (by_snr >= equally).all()


def test_printed_capacitance_costs_half_a_megajoule_and_the_usual_one_some_joules():
    # A mean device: 20 iterations * 20 cycles/bit * 6e7 bit = 2.4e10 cycles at 1.5 GHz.
    devices = two_devices(cycles=(2.4e10, 2.4e10), capacitance=np.array([1e-23, 1e-28]))
    np.testing.assert_allclose(wireless.compute_energy_j(devices, np.full(2, 1.5e9)), [5.4e5, 5.4])


# --- deadlines out of reach -----------------------------------------------------------------------------------------


def test_a_device_that_computes_too_long_is_named():
    devices = two_devices(cycles=(1e9, 5e9))  # 5e9 cycles take 2.5 s at 2 GHz
    answer = wireless.feasibility(devices, 2.4)
    assert not answer.feasible
    assert answer.hopeless.tolist() == [False, True] and not answer.crowded_out.any()
    assert answer.explain() == "The deadline cannot be met; late even with the whole band: devices 1."


def test_a_device_that_sends_too_long_even_alone_is_named():
    # snr 0.01 on the whole band: 1e6 * log2(1.01) = 14355 bit/s, 34.8 s for 0.5 Mbit.
    devices = two_devices(snr=(7.5, 0.01))
    assert wireless.feasibility(devices, 35.0).hopeless.tolist() == [False, True]
    assert wireless.feasibility(devices, 35.4).hopeless.tolist() == [False, False]


def test_devices_that_fit_alone_but_not_together_name_the_fewest_to_leave_out():
    # Each computes 0.5 s at 2 GHz; a deadline of 0.75 s leaves 0.25 s: half the band at snr 7.5, more at lower snr.
    devices = two_devices(snr=(7.5, 7.5, 6.0), cycles=(1e9, 1e9, 1e9))
    answer = wireless.feasibility(devices, 0.75)
    np.testing.assert_allclose(answer.share_min[:2], 0.5)
    assert 0.5 < answer.share_min[2] < 1
    assert not answer.feasible and not answer.hopeless.any()
    assert answer.crowded_out.tolist() == [False, False, True]
    assert "no room in the band for devices 2" in answer.explain()
    assert wireless.feasibility(devices[..., :2], 0.75).feasible
    assert wireless.feasibility(devices[..., :2], 0.75).explain().startswith("All 2 devices meet the deadline")


@pytest.mark.filterwarnings("error")
def test_an_instance_out_of_reach_answers_nan_beside_one_that_is_solved():
    devices = draw(20, draws=(2,))
    gain = devices.gain.copy()
    gain[1, 4] *= 1e-9
    mixed = replace(devices, gain=gain)
    alone = wireless.joint_optimum(devices[0], 30.0)
    for solve in (wireless.joint_optimum, wireless.alternation, alternation_by_lbfgsb):
        plan = solve(mixed, 30.0)
        assert plan.feasibility.feasible.tolist() == [True, False]
        assert np.flatnonzero(plan.feasibility.hopeless[1]).tolist() == [4]
        assert np.isnan(plan.energy_j[1]) and np.isnan(plan.share[1]).all() and np.isnan(plan.compute_energy_j[1])
        assert plan.energy_j[0] >= alone.energy_j * (1 - 1e-12)
    needs = wireless.feasibility(mixed, 30.0).share_min
    assert np.isnan(wireless.equal_share(mixed, needs)).any(axis=-1).tolist() == [False, True]


@pytest.mark.filterwarnings("error")
def test_instances_that_are_all_out_of_reach_answer_nan():
    devices = draw(20, draws=(2, 3))
    for solve in (wireless.joint_optimum, wireless.alternation, alternation_by_lbfgsb):
        for hopeless in (devices, devices[0, 0]):
            plan = solve(hopeless, 1e-3)
            assert np.isnan(plan.share).all() and plan.energy_j.shape == hopeless.shape[:-1]


# --- the numerics ---------------------------------------------------------------------------------------------------


def test_a_batch_gives_the_same_bytes_as_one_instance_at_a_time():
    devices = draw(21, draws=(6,))
    deadlines_s = np.array([26.0, 35.0])[:, None]
    for solve in (wireless.joint_optimum, wireless.optimal_bandwidth, alternation_by_lbfgsb):
        batch = solve(devices, deadlines_s)
        for i, j in np.ndindex(2, 6):
            one = solve(devices[j], float(deadlines_s[i, 0]))
            np.testing.assert_array_equal(batch.share[i, j], one.share)
            np.testing.assert_array_equal(batch.energy_j[i, j], one.energy_j)


@settings(deadline=None, max_examples=50)
@given(st.floats(0.05, 1e6), st.floats(1.01, 1e3))
def test_smallest_share_agrees_with_lamberts_function(snr, slack):
    # ln(1 + x) = a x with x = snr / b and a = s ln 2 / (t B snr) has the root 1 + x = -W_{-1}(-a exp(-a)) / a.
    devices = two_devices(snr=(snr, snr))
    seconds = slack * wireless.transmit_delay_s(devices, np.ones(2))
    a = 5e5 * np.log(2) / (seconds[0] * 1e6 * snr)
    x = -lambertw(-a * np.exp(-a), -1).real / a - 1
    np.testing.assert_allclose(share_for_delay(devices, seconds), snr / x, rtol=1e-9)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-3, 4), min_size=1, max_size=8))
def test_decreasing_root_finds_roots_inside_and_ends_outside_the_bracket(roots):
    roots = np.array(roots)
    low, high = np.full(roots.shape, -2.0), np.full(roots.shape, 3.0)
    found = decreasing_root(lambda x, root: root - x + np.sinh(root - x), low, high, (roots,))
    np.testing.assert_allclose(found, np.clip(roots, -2, 3), atol=1e-12)
