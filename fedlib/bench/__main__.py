"""`python -m fedlib.bench`: measure, then write `reports/bench/bench.json` and `reports/bench/index.html`.

Ctrl-C ends the run and keeps what was measured.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedlib.bench import growth, machine, page, peers, referee
from fedlib.bench.contestants import CONTESTANTS
from fedlib.bench.workloads import WORKLOADS, Workload
from fedlib.data.files import write_text
from fedlib.surroundings import REPOSITORY

FOLDER = REPOSITORY / "reports" / "bench"
GROWTH = "growth"


@dataclass(frozen=True)
class BenchRequest:
    """What the command line asks to measure."""

    workloads: dict[str, Workload]
    studies: dict[str, Workload]
    contestants: list[str]
    repetitions: int


def names(known: list[str]) -> Callable[[str], list[str]]:
    """An argument that lists known names, separated by commas."""

    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return [name for name in known if name in chosen]

    return parse


def parse(arguments: list[str] | None) -> BenchRequest:
    """The command line; for a wrong name, the error lists the known ones."""
    parser = argparse.ArgumentParser(
        prog="python -m fedlib.bench", description="How fast the engine is on this machine."
    )
    parts, rivals = [*WORKLOADS, GROWTH], list(CONTESTANTS)
    parser.add_argument("--only", type=names(parts), default=parts, help=f"some of {','.join(parts)}")
    parser.add_argument("--contestants", type=names(rivals), default=rivals, help=f"some of {','.join(rivals)}")
    parser.add_argument(
        "--repetitions", type=int, default=7, help="turns of each contestant (7; at least five for medians)"
    )
    chosen = parser.parse_args(arguments)
    if chosen.repetitions < 1:
        parser.error(f"--repetitions must be at least 1, not {chosen.repetitions}")
    return BenchRequest(
        {name: WORKLOADS[name] for name in chosen.only if name != GROWTH},
        growth.STUDIES if GROWTH in chosen.only and "engine" in chosen.contestants else {},
        chosen.contestants,
        chosen.repetitions,
    )


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def measure(request: BenchRequest, record: dict[str, Any]) -> None:
    """Fill the record, workload by workload."""
    python = peers.interpreter()
    for name, workload in request.workloads.items():
        measured: dict[str, referee.Measured] = {}
        record["workloads"][name] = {"workload": workload.as_dict(), "measured": measured}
        asked = [CONTESTANTS[contestant] for contestant in request.contestants]
        candidates = [contestant for contestant in asked if name in contestant.workloads]
        absent = {peer.name: peers.missing(peer, record["machine"]["peers"]) for peer in candidates}
        for contestant, reason in absent.items():
            measured[contestant] = referee.Measured(missing=reason)
        present = [contestant for contestant in candidates if not absent[contestant.name]]
        pythons = {contestant.name: python for contestant in present if contestant.package}
        referee.contest(workload, present, request.repetitions, measured, pythons, say)
    growth.measure(request.studies, request.repetitions, record["growth"], say)


def write(record: dict[str, Any], folder: Path) -> Path:
    """Write both files, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = json.loads(json.dumps(record, default=asdict))
    write_text(folder / "bench.json", json.dumps(plain, indent=1) + "\n")
    write_text(folder / "index.html", page.html(plain))
    return folder / "index.html"


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Measure what the command line asks for and write the report."""
    request, began = parse(arguments), time.monotonic()
    record: dict[str, Any] = {
        "machine": machine.facts(peers.versions(peers.interpreter())),
        "repetitions": request.repetitions,
        "turn_seconds": referee.TURN_SECONDS,
        "contestants": request.contestants,
        "interrupted": False,
        "workloads": {},
        "growth": {},
    }
    try:
        measure(request, record)
    except KeyboardInterrupt:
        say("interrupted; writing what was measured")
        record["interrupted"] = True
    finally:
        record["seconds"] = round(time.monotonic() - began, 1)
        say(f"wrote {write(record, folder)}")
    return 130 if record["interrupted"] else 0


if __name__ == "__main__":
    sys.exit(main())
