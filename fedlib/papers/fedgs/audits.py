"""The paper's own numbers, checked: one row a quantity with printed, found and holds. The ledger has the printed."""

import pandas as pd

from fedlib.judging import ledger
from fedlib.judging.checks import audit
from fedlib.papers.fedgs.hyper import possible

ROUNDS, ITERATIONS, BATCH = 500, 50, 32
FACTORIES, SELECTED, DEVICES = 10, 10, 350
FEMNIST_SAMPLES, FEMNIST_DEVICES = 805_263, 3_550  # as the paper counts them


def printed(id: str) -> dict[str, float]:
    """A column of Table II; a row that never arrives counts as the 500 rounds it had."""
    (block,) = ledger.load("fedgs").entry(id).blocks
    return {name: min(ledger.printed_range(cell)) for name, (cell,) in block.printed.items()}


def average_gain() -> pd.DataFrame:
    """86.0 less the mean of the other accuracies."""
    accuracy = printed("fedgs/table2")
    others = [value for name, value in accuracy.items() if name != "FedGS"]
    gain = accuracy["FedGS"] - sum(others) / len(others)
    return audit((f"points above the mean of {len(others)} rows", 3.5, f"{gain:.2f}", round(gain, 1) == 3.5))


def fewer_rounds() -> pd.DataFrame:
    """1 - 147 / mean of the other rounds, and FedAvg's rounds over those of FedGS."""
    rounds = printed("fedgs/table2-rounds")
    others = [value for name, value in rounds.items() if name != "FedGS"]
    share = 1 - rounds["FedGS"] * len(others) / sum(others)
    faster = rounds["FedAvg"] / rounds["FedGS"]
    return audit(
        ("fewer rounds than the mean, never counted as 500", "59%", f"{share:.1%}", round(100 * share) == 59),
        ("times fewer rounds than FedAvg", 3.3, f"{faster:.2f}", abs(faster - 3.3) <= 0.05 + 1e-9),
    )


QUOTED = (
    # minuend, subtrahend, what the text says in percentage points
    ("FedGS", "FedAvg", 3.9),
    ("CGAU", "FedAvg", 1.2),
    ("FedGS", "CGAU", 2.7),
    ("FedMMD", "FedAvg", 0.9),
    ("FedGS", "FedMMD", 3.0),
    ("FedAvg", "FedFusion+Single", 1.4),
    ("FedAdagrad", "FedAvg", 1.7),
    ("FedAdam", "FedAvg", 2.9),
    ("FedGS", "FedAdam", 1.0),
)


def text() -> pd.DataFrame:
    """Differences of accuracy that the text quotes beside those of the table."""
    accuracy = printed("fedgs/table2")
    found = [(f"{high} above {low}", quoted, round(accuracy[high] - accuracy[low], 1)) for high, low, quoted in QUOTED]
    return audit(*((quantity, quoted, value, quoted == value) for quantity, quoted, value in found))


def stream() -> pd.DataFrame:
    """Samples that the devices would need if no batch were used twice, against those that 350 of 3550 devices have."""
    needed = ROUNDS * ITERATIONS * FACTORIES * SELECTED * BATCH
    held = round(FEMNIST_SAMPLES * DEVICES / FEMNIST_DEVICES)
    holds = needed <= held
    return audit(
        ("samples needed to use each once", f"at most {held:,}", f"{needed:,}", holds),
        ("passes over the data", "at most 1", f"{needed / held:,.0f}", holds),
    )


def cells(groups: list[int], selected: list[int], devices: int = DEVICES) -> pd.DataFrame:
    """Cells of Fig. 5b: devices wanted from a group against the devices that the smallest group has."""
    return audit(
        *(
            (f"M = {many}, L = {chosen}", f"L at most {devices // many}", chosen, possible(devices, many, chosen))
            for many in groups
            for chosen in selected
        )
    )
