"""The paper's own numbers and formulas, checked: one row per quantity with printed, found and holds."""

import numpy as np
import pandas as pd
from scipy.integrate import quad

from fedlib.judging import ledger
from fedlib.judging.checks import audit
from fedlib.problem import layout, models
from fedlib.problem.partition import inverse_pareto_density
from fedlib.selection import skewness


def printed(id: str) -> dict[tuple[str, str], float]:
    """A printed table by (method, environment)."""
    return ledger.printed(id).dropna().set_index(["method", "environment"])["printed"].to_dict()


def printed_density(alpha: float, s: float) -> float:
    """Eq. (5) as printed."""
    return s * (2 - alpha) ** -s / (1 - 2**-s)


def density(shapes: tuple[float, ...] = (2.0, 3.0)) -> pd.DataFrame:
    """A density integrates to one."""
    rows = []
    for s in shapes:
        area = quad(printed_density, 0, 1, args=(s,))[0]
        rows.append((f"area under Eq. (5), s = {s:g}", 1, f"{area:.4f}", abs(area - 1) < 1e-6))
    return audit(*rows)


def corrected_area(s: float = 2.0) -> float:
    """The area under the density we use instead."""
    return quad(lambda alpha: float(inverse_pareto_density(np.array(alpha), s)), 0, 1)[0]


def speedups() -> pd.DataFrame:
    """Table III: each speed-up computed from its two numbers of rounds, to the printed decimal."""
    rounds, shown = printed("fedacs/table3"), printed("fedacs/table3-speedup")
    rows = []
    for (method, environment), value in shown.items():
        slow, fast = rounds["baseline", environment], rounds[method, environment]
        speedup, quantity = slow / fast, f"{environment}, {method}: {slow:g}/{fast:g}"
        rows.append((quantity, f"{value}x", f"{speedup:.2f}x", abs(speedup - value) <= 0.05 + 1e-9))
    return audit(*rows)


def improvements() -> pd.DataFrame:
    """Table II: each relative improvement must be possible with accuracies that round to the printed ones."""
    accuracy, shown = printed("fedacs/table2"), printed("fedacs/table2-improvement")
    iid = accuracy["baseline", "iid"]
    rows = []
    for (method, environment), value in shown.items():
        if method != "baseline" and (method, environment) in accuracy:
            low, high = _possible(accuracy[method, environment], accuracy["baseline", environment], iid)
            rows.append((f"{environment}, {method}", f"{value}%", f"{low:.1f} to {high:.1f}%", low <= value <= high))
    return audit(*rows)


def _possible(method: float, baseline: float, iid: float, half: float = 0.05) -> tuple[float, float]:
    """Least and greatest percentage that accuracies within `half` of the printed ones allow."""
    around = [np.array([-half, half]) + value for value in (method, baseline, iid)]
    ratios = [100 * (m - b) / (i - b) for m in around[0] for b in around[1] for i in around[2]]
    return min(ratios), max(ratios)


def headline() -> pd.DataFrame:
    """The speed-up in abstract and conclusion compared with Table III; the improvement for comparison."""
    rounds, gains = printed("fedacs/table3"), printed("fedacs/table2-improvement")
    best = max(rounds["baseline", name] / rounds["FedACS", name] for name in ("uniform", "inverse Pareto", "Dirichlet"))
    gain = max(value for (method, _), value in gains.items() if method == "FedACS")
    return audit(
        ("largest speed-up in Table III (abstract, conclusion)", "2.4x", f"{best:.1f}x", round(best, 1) == 2.4),
        ("largest speed-up in Table III (contributions)", "2.1x", f"{best:.1f}x", round(best, 1) == 2.1),
        ("largest improvement in Table II (abstract)", "78.2%", f"{gain}%", gain == 78.2),
    )


def weights() -> tuple[int, int]:
    """Weights of the tutorial's network and of its last layer."""
    blocks = layout.blocks(models.build("lenet_tutorial", 10, (3, 32, 32)))
    return blocks[-1].stop, blocks[-1].stop - blocks[-1].start


def network() -> pd.DataFrame:
    """Section VII-C's counts compared with the network of reference [31]."""
    total, last = weights()
    as_printed, true = (round(100 * up / (2 * both_ways), 2) for up, both_ways in ((8_500, 620_060), (last, total)))
    return audit(
        ("weights of the network", 620_060, total, total == 620_060),
        ("weights of the last layer", 8_500, last, last == 8_500),
        ("traffic overhead from the printed counts, %", 0.69, as_printed, as_printed == 0.69),
        ("traffic overhead from the true counts, %", 0.69, true, true == 0.69),
    )


def overhead(epochs: int, rounds: int, stop: int) -> pd.DataFrame:
    """Section VII-C: extra traffic and extra computation in percent of what FedAvg needs, with and without early stop.

    Traffic: the model goes down and up, the insight goes up. Computation, in passes over the data: an insight is one
    pass in addition to E. The last layer's gradient needs no backward pass through the layers below; if a training pass
    counts as three forward ones (one forward, two of the same size backward), an insight costs a third.
    """
    total, last = weights()
    full = {"traffic": last / (2 * total), "computation": 1 / epochs, "computation, last layer only": 1 / (3 * epochs)}
    shares = {"never": 1.0, "early": stop / rounds}
    return pd.DataFrame(
        [
            {"quantity": quantity, "stop": name, "percent": 100 * share * value}
            for quantity, value in full.items()
            for name, share in shares.items()
        ]
    )


def misprints(kappa: int = 10) -> pd.DataFrame:
    """Formulas, indices and words that cannot be right as printed."""
    tighter = kappa**0.5  # (1) solved for epsilon at a fixed probability: proportional to 1 / sqrt(samples)
    return audit(
        ("Algorithm 2, line 5: whose Beta parameters", "A_i, i counts picks", "A_c, of the client", False),
        ("Algorithm 3, line 6: the opponent's reward", "R_j", "R_j of <all>, as in line 4", False),
        ("Table I: a and b of Hoeffding's inequality", "upper, lower", "lower, upper", False),
        ("(33), from the logarithm of (32)", "K ln 2 - P", "K ln 2 - ln P", False),
        ("Appendix A-C: range of 2 exp(-x), x >= 0", "[0, 1]", "(0, 2]", False),
        (f"Appendix A-B: bound tighter, {kappa} equal clients together", f"{kappa}x", f"{tighter:.1f}x", False),
    )


def equivalence(pairs: pd.DataFrame) -> pd.DataFrame:
    """Eq. (15) says that Q orders any two clients by their skewness: measured, and for clients of unequal size.

    `pairs` has the share of wrongly ordered pairs by model, `results.inverted_pairs`.
    """
    rows = [
        (f"pairs ordered wrongly, {model}", "none", f"{100 * share:.1f}%", share == 0)
        for model, share in pairs.groupby("model", sort=False)["share"].mean().items()
    ]
    # Two clients of equal skewness: insights equally far from the mean, but sqrt(M) differs.
    twins = skewness.estimates(np.array([[1.0], [-1.0]]), np.array([1.0, 4.0]), np.zeros(1))
    return audit(
        *rows,
        ("Q of a client over that of a twin with a quarter of the samples", "1", f"{twins[1] / twins[0]:g}", False),
    )


def own_share(kappa: int) -> pd.DataFrame:
    """Eq. (14) takes the mean over all participants, including client i: how much this shrinks its distance."""
    insights = np.zeros((kappa, 1))
    insights[0] = 1.0
    to_mean = skewness.estimates(insights, np.ones(kappa))[0]
    return audit(
        (
            f"client i's share of the mean it is compared with, {kappa} equal clients",
            "not said",
            f"{1 / kappa:g}",
            False,
        ),
        ("its distance to that mean over its distance to the others' mean", "not said", f"{to_mean:g}", False),
    )


def losses_by_environment() -> pd.DataFrame:
    """What skew costs by Fig. 2's text and by Table II; they have different samples per client (250 and 2000)."""
    block = ledger.load("fedacs").entry("fedacs/fig2").blocks[0]
    accuracy = printed("fedacs/table2")
    rows = []
    for environment, (change,) in block.printed.items():
        implied = accuracy["baseline", "iid"] - accuracy["baseline", environment]
        rows.append((environment, f"{-change} points", f"{implied:.1f} points", abs(-change - implied) <= 0.1))
    return audit(*rows)


# Where text and released code differ: what, printed, released. Repository HuskyW/FedACS.
RELEASED = (
    ("Algorithm 3: a tie", "changes nothing", "is lost"),
    ("Algorithm 3: of several remembered rewards of a client", "the latest", "the oldest"),
    ("(13): norm", "of all last-layer weights", "of the weights plus that of the biases"),
    ("(13): factor", "sqrt(M)", "M"),
    ("Rexp3: restarts", "non-stationary bandit", "the round counter never advances: none"),
    ("insight", "one full batch", "one full batch, cropped and flipped at random"),
)


def released() -> pd.DataFrame:
    """The text compared with the authors' code."""
    return audit(*((quantity, text, code, False) for quantity, text, code in RELEASED))


# One row per choice: printed, released, and what the runs here do at every scale.
SETUPS = (
    ("inputs", "not said", "channels normalised; random crop (padding 4) and flip when training", "as released"),
    ("SGD", "rate 0.1", "momentum 0.5, weight decay 5e-4", "as released"),
    ("decay of the rate", "0.9993 per local epoch", "the same", "the same end of the run, whatever its length"),
    (
        "samples per client",
        "250 (Figs. 2, 5), else 2000",
        "2000",
        "250 at desk scale, and 2000 in the uniform environment",
    ),
    ("dominant class", "not said", "the class handed out least so far", "every class equally often, at random"),
    ("FedACS: pool", "0.4 N", "8 kappa, the same", "0.4 N"),
    ("FedACS: a tie", "nothing", "is lost", "both: FedACS; FedACS, released"),
    ("FedACS: remembered reward", "the latest", "the oldest", "both"),
    ("FedACS: Q", "joint norm", "norm of weights plus norm of biases", "both"),
    ("FedACS: insight", "one full batch", "cropped and flipped", "one full batch as it is; as released: not run"),
    ("early stop", "an extra, after round 200", "on", "an extra"),
    (
        "Oort: utility",
        "training loss",
        "mean loss of the E local epochs",
        "as released: without Oort's sizes, clipping and noise",
    ),
    ("Oort: pool, ban", "bans by participation", "best 20%, drawn by utility; 100 times", "20%; twice the even share"),
    ("CMFL: compared with", "global gradient", "this round's mean update", "as released; own paper: the last update"),
    (
        "CMFL: threshold",
        "not said",
        "0.8 in the stored version, 0.7 in a copy of it; if none passes, the best one",
        "0.7 with 2000 images per client, else scaled where it keeps enough; own paper: 0.8 / sqrt(round)",
    ),
    ("Rexp3: rewards", "R_i", "raw, negative", "as released; own paper: scaled to 0..1"),
    ("Rexp3: factor M of rewards", "M = 2000", "M = 2000", "2000 at every scale"),
    (
        "Rexp3: gamma, restarts",
        "not said",
        "0.2, none",
        "as released; own paper: optimal, and 250 for 1000 rounds, growing as rounds^(2/3)",
    ),
)


def setups() -> pd.DataFrame:
    """What the paper prints, what its authors released, and what is run here."""
    return pd.DataFrame(SETUPS, columns=["choice", "printed", "released", "here"])
