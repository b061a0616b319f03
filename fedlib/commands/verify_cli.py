"""`fedlib verify`: recompute recorded runs and compare digit for digit.

python -m fedlib verify                      the first rounds of each kind of run: minutes on two cores
python -m fedlib verify paper=fedsr          those of one paper
python -m fedlib verify --sample 5           five whole runs, drawn at random
python -m fedlib verify --all                all runs, whole: takes as long as computing them
python -m fedlib verify --accept             after a change of code that should not change digits: if a run of a kind
                                             gives equal digits (whole; of a long one, the first minute), the present
                                             code is accepted for that kind
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fedlib.commands import FAILED, FINE, INTERRUPTED
from fedlib.commands.record_cli import commit_of_code
from fedlib.report.usage import UsageError, valid_names

if TYPE_CHECKING:
    from fedlib.runs.verify import Extent, VerifiedRun


def run(words: list[str], root: Path) -> int:
    """Check the runs that the command line asks for and print a table; fails if any differs, or none was compared."""
    options, paper = read(words)
    recorded = on_record(paper)
    chosen, extent = choice(options, recorded)
    commit = commit_of_code("verify --accept") if options.accept else ""
    checked: list[VerifiedRun] = []
    code = carry_out(chosen, extent, checked, commit)
    checked.sort(key=lambda result: (result.paper, result.run.kind, result.run.name))
    print(table(checked))
    print(summary(checked, recorded))
    return code or (FAILED if failed(checked, options.accept) else FINE)


def choice(options: argparse.Namespace, recorded: list) -> "tuple[list, Extent]":
    """Which runs to compute again, and how much of each."""
    from fedlib.runs import verify

    if options.accept:
        return verify.one_of_each_kind(verify.not_vouched_for(recorded), whole=True), "beginning"
    if options.sample is not None:
        return verify.at_random(recorded, options.sample), "whole"
    return (recorded, "whole") if options.all else (verify.one_of_each_kind(recorded), "first rounds")


def on_record(paper: str) -> list:
    """The recorded runs of a paper, or of all of them, each with its paper."""
    from fedlib.runs import record

    if paper != "all" and paper not in record.papers():
        raise UsageError(f"paper={paper}: it has no recorded runs. {valid_names(['all', *record.papers()], paper)}")
    try:
        papers = record.papers() if paper == "all" else [paper]
        return [(name, line) for name in papers for line in record.runs_of(name).values()]
    except record.DamagedRecord as damage:
        raise UsageError(f"verify: {damage}") from None


def failed(checked: list, accept: bool) -> bool:
    """Whether a run came out wrong, or nothing was compared at all; but there may be no new code to accept."""
    from fedlib.runs import verify

    compared = any(result.outcome in verify.COMPARED for result in checked)
    wrong = any(result.outcome in verify.WRONG for result in checked)
    return wrong or not (compared or (accept and not checked))


def read(words: list[str]) -> tuple[argparse.Namespace, str]:
    """The options, and the paper."""
    parser = argparse.ArgumentParser(
        prog="python -m fedlib verify", usage="%(prog)s [paper=name] [options]", allow_abbrev=False, exit_on_error=False
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--sample", type=_count, metavar="N", help="recompute N runs, drawn at random, whole")
    how.add_argument("--all", action="store_true", help="recompute all runs, whole")
    how.add_argument("--accept", action="store_true", help="accept the present code for kinds whose digits are equal")
    try:
        options, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise UsageError(f"verify: {error}") from None
    papers = [word.removeprefix("paper=") for word in rest if word.startswith("paper=")]
    if wrong := [word for word in rest if not word.startswith("paper=")]:
        raise UsageError(f"verify {wrong[0]}: it takes paper=name, --sample N, --all or --accept.")
    return options, papers[-1] if papers else "all"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be a whole number, 1 or more")
    return int(text)


def carry_out(chosen: list, extent: "Extent", checked: "list[VerifiedRun]", commit: str) -> int:
    """Collect the outcomes as they come, also those before an interruption, and accept code at this commit; an exit
    code, FINE if all were checked."""
    from fedlib.runs import record
    from fedlib.runs.backends.processes import WorkersDied

    try:
        for result in outcomes(chosen, extent):
            checked.append(result)
            if commit and result.outcome == "equal":
                record.accept(result.run, result.maker, commit)
    except KeyboardInterrupt:
        print(f"Interrupted, before {len(chosen) - len(checked)} of {len(chosen)} runs were checked.", file=sys.stderr)
        return INTERRUPTED
    except WorkersDied as loss:
        print(f"fedlib: {loss}", file=sys.stderr)
        return FAILED
    return FINE


def outcomes(chosen: list, extent: "Extent") -> "Iterator[VerifiedRun]":
    """The outcomes as they come, with a progress bar meanwhile."""
    from tqdm import tqdm

    from fedlib.runs import backends, verify
    from fedlib.runs.bars import quiet

    with tqdm(total=len(chosen), desc="verify", unit="run", leave=False, disable=quiet() or not chosen) as bar:
        yield from verify.check_all(chosen, extent, backends.cores(), bar.update)


def table(checked: list) -> str:
    """One line per run: what was compared, and the outcome."""
    lines = []
    for result in checked:
        part = f"{result.rows} of {result.of} measurements" if result.of else ""
        lines.append(f"{result.outcome:22} {part:26} {result.paper:8} {result.run.name}  {result.run.kind}")
        lines += [f"    {result.note}"] if result.note else []
    return "\n".join(lines)


def summary(checked: list, recorded: list) -> str:
    """How many runs were checked, and the outcomes."""
    from fedlib.runs import verify

    counts = Counter(result.outcome for result in checked)
    compared = [result for result in checked if result.outcome in verify.COMPARED]
    kinds, rows = len({result.run.kind for result in compared}), sum(result.rows for result in compared)
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "nothing to check"
    of = f"{len({line.kind for _, line in recorded})} kinds, {len(recorded)} runs on record"
    none = "" if compared or not checked else " No run could be compared: this says nothing about the record."
    return f"{outcomes}. Checked: {kinds} kinds, {len(compared)} runs, {rows} measurements; of {of}.{none}"
