"""The paper's own numbers and equations, checked: one row per quantity with printed, found and holds."""

import pandas as pd

from fedlib.algorithms.acfmo import ACFMO
from fedlib.judging import ledger
from fedlib.judging.checks import audit
from fedlib.papers.acfmo.experiments import READINGS, RIVALS, acfmo
from fedlib.papers.acfmo.results import best_iterations, effective_steps, largest_stable, printed, vectors


def micro(accuracy: str, recall: str, f1: str) -> pd.DataFrame:
    """Printed accuracy, micro recall and micro F1 of ACFMO, level by level: three names of one number."""
    rows = []
    for level, share in printed(accuracy).items():
        others = [printed(id)[level] for id in (recall, f1)]
        equal = share == others[0] == others[1]
        said = f"{100 * share:g}%, {others[0]:g}, {others[1]:g}"
        rows.append((f"{level}% of devices", said, "equal" if equal else "different", equal))
    return audit(*rows)


def widening(figure: str, before: int, after: int) -> pd.DataFrame:
    """Does the printed lead of ACFMO grow between two participation levels, as the text says? One row per rival."""
    block = ledger.load("acfmo").entry(figure).blocks[0]
    (levels,) = block.columns.values()
    rows = []
    for rival in RIVALS:
        pairs = [
            (block.printed[acfmo(READINGS[0])][at], block.printed[rival][at])
            for at in (levels.index(before), levels.index(after))
        ]
        rows.append((f"lead over {rival}", f"wider at {after}% than at {before}%", _same(pairs), pairs[0] != pairs[1]))
    return audit(*rows)


def _same(pairs: list[tuple]) -> str:
    (ours, theirs), later = pairs[0], pairs[1]
    return f"{ours} against {theirs} at both" if pairs[0] == later else f"{pairs[0]}, then {later}"


def step_of_moments(beta1: list[float], beta2: list[float]) -> pd.DataFrame:
    """Is the rate of Eq. (7) the one that belongs to the moments of Eqs. (8) and (9), so that the step is alpha_g^0
    times Adam's whatever the decay rates?"""
    factors = effective_steps(beta1, beta2)
    used = float((1 - 0.9) / (1 - 0.999) ** 0.5)
    spread = float(factors.to_numpy().max() / factors.to_numpy().min())
    return audit(
        ("step / (alpha_g^0 x Adam's) at 0.9 and 0.999", "1", f"{used:.2f}", abs(used - 1) < 0.01),
        ("largest / smallest of it over the grid of Fig. 8", "1", f"{spread:.0f}", spread < 1.01),
    )


def participation_terms(beta: float = 0.9) -> pd.DataFrame:
    """Do the rate and the memory of Eqs. (4) to (9) depend on how many devices answer, as the abstract says?"""
    few, many = (ACFMO(participation=share, beta1=beta) for share in (0.01, 1.0))
    rows = [
        (
            f"alpha_g after {rounds} rounds, 1% and 100% of the devices",
            "different",
            f"{few.rate(rounds):.4g} in both",
            few.rate(rounds) != many.rate(rounds),
        )
        for rounds in (1, 10, 100)
    ]
    return audit(*rows)


def anchor(weight: pd.DataFrame) -> pd.DataFrame:
    """Is the anchor that Eq. (14) adds the gradient at the point where Eq. (12) subtracts, up to 1%? `weight` comes
    from `experiments.local_weight`."""
    shifts = weight.groupby("participation")["shift"].median()
    rows = [
        (f"|g(w) - g(w-hat)| / |g(w-hat)| at {level:.0%}", "<= 0.01", f"{shift:.2f}", shift <= 0.01)
        for level, shift in shifts.items()
    ]
    return audit(*rows)


def proof() -> pd.DataFrame:
    """What the convergence proof of Appendix A is about, beside the method: where they differ, it is not about it."""
    parts = [
        ("local steps start from", "w-hat^{r-1}, Eq. (16)", "w^{r-1}, below Eq. (67)"),
        ("the server's step with momentum", "Eq. (4)", "none"),
        ("scaling by feature counts, Lambda_i", "Eq. (12)", "none"),
        ("scaling by rare features, A_r", "Eq. (20)", "none"),
        ("factor of the local work", "alpha_g / (S K), Eq. (20)", "none"),
    ]
    return audit(*((quantity, method, appendix, method == appendix) for quantity, method, appendix in parts))


def exchanged() -> pd.DataFrame:
    """Does a device exchange no more vectors with the server in a round than with FedAvg, or with a baseline?"""
    ours = vectors("ACFMO")
    rows = [
        (
            f"vectors per device and round, {rival} {vectors(rival)}",
            f"<= {vectors(rival)}",
            ours,
            ours <= vectors(rival),
        )
        for rival in ("FedAvg", *RIVALS)
    ]
    return audit(*rows)


def advice(ends: pd.DataFrame) -> pd.DataFrame:
    """Is the recommended pair (0.6, 0.99) within a point of the best pair of the grid, under each reading?"""
    rows = []
    for variant, runs in ends.groupby("variant", sort=False):
        cells = runs.groupby(["beta1", "beta2"])["accuracy"].mean()
        first, second = cells.idxmax()
        behind = 100 * (cells.max() - cells.loc[(0.6, 0.99)])
        rows.append(
            (
                f"points behind the best pair, {variant}",
                "at most 1",
                f"{behind:.1f} ({first:g}, {second:g})",
                behind <= 1,
            )
        )
    return audit(*rows)


def lag(pair: pd.DataFrame) -> pd.DataFrame:
    """The largest stable step and the measured accuracy at beta1 = 0.9, with this round's moments and with the lag."""
    accuracy = pair[pair["beta1"] == 0.9].groupby("variant")["accuracy"].agg(["mean", "std"]).fillna(0)
    current, printed = accuracy.loc["current"], accuracy.loc["printed"]
    without, late = (largest_stable(0.9, rounds) for rounds in (0, 1))
    kept = printed["mean"] >= current["mean"] - current["std"]
    reach = "largest stable step x curvature"
    return audit(
        (reach, f"{without:.1f} without lag", f"{late:.1f} with lag", late >= without),
        ("accuracy", f"{current['mean']:.3f} without lag", f"{printed['mean']:.3f} with lag", kept),
    )


def first_round(moves: pd.DataFrame) -> pd.DataFrame:
    """How far the first round moves the model, under each reading."""
    rows = [
        (f"change of the model in round 1, {variant}", "> 0", f"{moved:.4f}", moved > 0)
        for variant, moved in zip(moves["variant"], moves["moved"], strict=True)
    ]
    return audit(*rows)


def local_work(weight: pd.DataFrame) -> pd.DataFrame:
    """Is the local part, as `experiments.local_weight` measures it, at least 1% of the central step?"""
    ratios = weight.groupby("participation")["ratio"].median()
    rows = [
        (f"local / central at {level:.0%}", ">= 0.01", f"{ratio:.1e}", ratio >= 0.01) for level, ratio in ratios.items()
    ]
    return audit(*rows)


def jensen(ratios: pd.DataFrame) -> pd.DataFrame:
    """Median over devices of E|g|^2 / |E g|^2 for single-sample gradients, which Eq. (36) says is at most one."""
    rows = []
    for round, ratio in ratios.groupby("round")["ratio"].median().items():
        moment = f"after {round} rounds" if round else "at the start"
        rows.append((f"E|g|^2 / |E g|^2 {moment}, median device", "<= 1", f"{ratio:.3g}", ratio <= 1))
    return audit(*rows)


def local_iterations(mu: float, smooth: float, reach: int = 1000) -> pd.DataFrame:
    """Local iterations that Eq. (82) asks for, against what a device can do per round."""
    asked = {target: int(best_iterations(target, mu, smooth)) for target in (0.5, 0.9)}
    rows = [
        (f"K* for a target rate of {target}", f"<= {reach}", steps, steps <= reach) for target, steps in asked.items()
    ]
    return audit(*rows)
