"""Time of a round (FedGS, Section VI-B, Proposition 4): FedGS against FedAvg, with and without averaging base stations.

All times in seconds. Every function takes one `Setting`; its fields may be arrays, which gives sweeps.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fedlib.judging.checks import audit

WEIGHTS = 6_603_710  # LEAF's FEMNIST network
ROUNDS = {"FedGS": 147, "FedAvg": 478}  # to 82%, Table II
RATIOS = (10.0, 100.0)  # printed range of B_int / B_ext


@dataclass(frozen=True)
class Setting:
    """The paper's symbols; where it prints a value, that one."""

    iterations: float = 50  # T
    factories: float = 10  # M
    selected: float = 10  # L
    ratio: float = 10.0  # B_int / B_ext
    external_hz: float = 10e6  # B_ext; not printed
    snr: float = 100.0  # gamma, 20 dB; not printed
    model_bits: float = 32.0 * WEIGHTS  # S
    step_s: float = 0.1  # T_comp; not printed, and the same for all methods
    select_s: float = 0.015  # T_select

    @property
    def outside_s(self) -> float:
        """2S / (beta B_ext): one model to the cloud and back."""
        return 2 * self.model_bits / (np.log2(1 + self.snr) * self.external_hz)

    @property
    def inside_s(self) -> float:
        """2S / (beta B_int): one model to the base station and back."""
        return self.outside_s / self.ratio


def fedgs_s(s: Setting) -> float:
    """Eq. (24): M models travel outside once, L models inside in each of T iterations."""
    return s.factories * s.outside_s + s.iterations * (s.select_s + s.selected * s.inside_s + s.step_s)


def fedavg_s(s: Setting) -> float:
    """Eq. (25): all ML models travel outside, once."""
    return s.factories * s.selected * s.outside_s + s.iterations * s.step_s


def hierarchical_s(s: Setting) -> float:
    """Not in the paper's comparison: FedAvg whose base stations average, so that M models travel outside."""
    return s.factories * s.outside_s + s.selected * s.inside_s + s.iterations * s.step_s


METHODS = {"FedGS": fedgs_s, "FedAvg": fedavg_s, "FedAvg, averaged in the factory": hierarchical_s}


def threshold(s: Setting) -> float:
    """Proposition 4: FedGS's round is the shorter one where B_int / B_ext is above this; infinite for L = 1."""
    with np.errstate(divide="ignore"):
        return np.divide(s.iterations * s.selected, s.factories * (s.selected - 1.0))


def exact_threshold(s: Setting) -> float:
    """The same with T_select kept, by the second line of Proof 4; infinite where selecting takes too long."""
    room = s.factories * (s.selected - 1.0) - s.iterations * s.select_s / s.outside_s
    with np.errstate(divide="ignore"):
        return np.where(room > 0, np.divide(s.iterations * s.selected, room), np.inf)[()]


def flips(s: Setting) -> dict[str, float]:
    """Where the winner changes when one of the four moves and the others stay, by Proposition 4."""
    spare = s.ratio * s.factories - s.iterations
    return {
        "iterations": s.ratio * s.factories * (s.selected - 1) / s.selected,  # FedGS wins below
        "factories": s.iterations * s.selected / (s.ratio * (s.selected - 1)),  # above
        "selected": s.ratio * s.factories / spare if spare > 0 else np.inf,  # above
        "ratio": float(threshold(s)),  # above
    }


def sweep(s: Setting, ranges: dict[str, list]) -> pd.DataFrame:
    """One row a method and point: sweep, value, method, seconds."""
    frames = []
    for name, values in ranges.items():
        moved = replace(s, **{name: np.asarray(values, dtype=float)})
        for method, seconds in METHODS.items():
            took = seconds(moved) * np.ones(len(values))
            about = {"sweep": name, "value": getattr(moved, name), "method": method}
            frames.append(pd.DataFrame(about | {"seconds": took}))
    return pd.concat(frames, ignore_index=True).assign(seed=0)


def crossings(s: Setting) -> pd.DataFrame:
    """The flips as a table."""
    wins = {"iterations": "below", "factories": "above", "selected": "above", "ratio": "above"}
    symbols = {"iterations": "T", "factories": "M", "selected": "L", "ratio": "B_int / B_ext"}
    rows = [(symbols[name], f"{getattr(s, name):g}", f"{wins[name]} {place:.3g}") for name, place in flips(s).items()]
    return pd.DataFrame(rows, columns=["what moves", "here", "FedGS is faster"]).set_index("what moves")


def in_range(s: Setting, ratios: list[float]) -> pd.DataFrame:
    """Seconds of a round of FedGS and FedAvg at each ratio."""
    moved = sweep(s, {"ratio": ratios})
    return moved[moved["method"].isin(["FedGS", "FedAvg"])].rename(columns={"value": "ratio"}).drop(columns="sweep")


def total(s: Setting, ratios: list[float]) -> pd.DataFrame:
    """Hours to 82% accuracy with the rounds that Table II prints, over the ratio."""
    moved = sweep(s, {"ratio": ratios}).rename(columns={"value": "ratio"}).drop(columns="sweep")
    rounds = [ROUNDS[method.split(",")[0]] for method in moved["method"]]
    return moved.assign(rounds=rounds, hours=moved["seconds"] * rounds / 3600)


def break_even(s: Setting) -> pd.DataFrame:
    """The ratio from which FedGS needs less time than each rival, for one round and to 82%, T_select left in."""
    rows = []
    for method, seconds in list(METHODS.items())[1:]:
        for what, ours, theirs in (("one round", 1, 1), ("to 82%", ROUNDS["FedGS"], ROUNDS["FedAvg"])):
            moved = [replace(s, ratio=1.0), replace(s, ratio=np.inf)]
            place = _crossing(*(ours * fedgs_s(at) - theirs * seconds(at) for at in moved))
            rows.append({"against": method, "time": what, "FedGS is faster from a ratio of": place})
    return pd.DataFrame(rows)


def _crossing(at_one: float, at_infinity: float) -> float:
    """The ratio at which a difference of times is zero: it is linear in 1 / ratio, so two points tell all."""
    return max(0.0, 1 - at_one / at_infinity) if at_infinity < 0 else np.inf


# Audits


def algebra(draws: int, rng: np.random.Generator) -> pd.DataFrame:
    """Random settings with T_select = 0: does the condition say who is faster?"""
    s = Setting(
        iterations=rng.integers(1, 200, draws),
        factories=rng.integers(1, 50, draws),
        selected=rng.integers(1, 40, draws),
        ratio=10 ** rng.uniform(0, 3, draws),
        external_hz=10 ** rng.uniform(6, 9, draws),
        snr=10 ** rng.uniform(0, 4, draws),
        step_s=rng.uniform(0, 5, draws),
        select_s=0.0,
    )
    agree = int(((threshold(s) < s.ratio) == (fedgs_s(s) < fedavg_s(s))).sum())
    return audit((f"settings of {draws} in which condition and times agree", draws, agree, agree == draws))


def selecting(s: Setting, share: float = 0.1, usual_gbit: float = 1.0) -> pd.DataFrame:
    """How fast the way to the cloud must be for T_select to eat a share of the saving, M(L - 1) models."""
    outside_s = s.iterations * s.select_s / (share * s.factories * (s.selected - 1))
    gbit = 2 * s.model_bits / outside_s / 1e9
    quantity = f"Gbit/s to the cloud at which selecting eats {share:.0%} of the saving"
    return audit((quantity, f"above {usual_gbit:g}", f"{gbit:.1f}", gbit > usual_gbit))


def own_settings(ratio: float = RATIOS[0]) -> pd.DataFrame:
    """The settings of Fig. 5 that 350 devices can fill, against the lower end of the printed range."""
    cells = [(iterations, 10, 10) for iterations in (10, 30, 50)]
    cells += [(50, factories, chosen) for factories in (5, 10, 20) for chosen in (5, 10, 20, 40)]
    cells = [cell for cell in cells if cell[1] * cell[2] <= 350]
    rows = []
    for iterations, factories, chosen in dict.fromkeys(cells):
        needed = float(threshold(Setting(iterations=iterations, factories=factories, selected=chosen)))
        quantity = f"T = {iterations}, M = {factories}, L = {chosen}"
        rows.append((quantity, f"below {ratio:g}", round(needed, 2), needed < ratio))
    return audit(*rows)


def against_hierarchy(s: Setting) -> pd.DataFrame:
    """Section III lets base stations average before they upload, Eq. (22) does not. With it, who is faster?"""
    rows = []
    for ratio in RATIOS:
        moved = replace(s, ratio=ratio)
        ours, theirs = fedgs_s(moved), hierarchical_s(moved)
        quantity = f"round of FedGS over round of FedAvg, ratio {ratio:g}"
        rows.append((quantity, "below 1", f"{ours / theirs:.2f}", ours < theirs))
    return audit(*rows)
