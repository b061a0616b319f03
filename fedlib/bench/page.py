"""`bench.json` as a page: charts, times, ratios and aims, and how they were measured. One file, nothing loaded."""

from pathlib import Path

import jinja2

from fedlib.bench import growth, machine, peers, picture, summary
from fedlib.bench.contestants import CONTESTANTS
from fedlib.bench.workloads import Workload

FOLDERS = [Path(__file__).parent, Path(__file__).parents[1] / "report" / "templates"]


def html(record: dict) -> str:
    """The page for one benchmark record."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(FOLDERS), autoescape=True, trim_blocks=True)
    environment.filters["number"] = picture.number
    workloads = [_workload(name, values) for name, values in record["workloads"].items()]
    spreads = {workload["name"]: workload["spreads"] for workload in workloads if workload["spreads"]}
    return environment.get_template("page.html.j2").render(
        record=record,
        workloads=workloads,
        bars=picture.bars(spreads) if spreads else None,
        studies=[_study(name, values) for name, values in record["growth"].items()],
        lines=picture.growth_lines(record["growth"]) if _has_lines(record["growth"]) else None,
        contestants=[contestant for contestant in CONTESTANTS.values() if contestant.name in record["contestants"]],
        install=peers.INSTALL,
        busy=record["machine"]["load"] > machine.BUSY * record["machine"]["cores"],
    )


def _workload(name: str, values: dict) -> dict:
    times = {contestant: measured["ms"] for contestant, measured in values["measured"].items()}
    spreads = {contestant: summary.spread(ms) for contestant, ms in times.items() if ms}
    ratios = summary.ratios(name, times)
    rows = [
        {
            "contestant": CONTESTANTS[contestant],
            "spread": spreads.get(contestant),
            "ratio": ratios.get(contestant),
            **measured,
        }
        for contestant, measured in values["measured"].items()
    ]
    return {"name": name, "workload": Workload.from_dict(values["workload"]), "spreads": spreads, "rows": rows}


def _study(name: str, values: dict) -> dict:
    kinds = [("clients", "Clients"), ("cohort", "Participants")]
    series = [(label, growth.series(values["ms"], kind)) for kind, label in kinds]
    tables = [
        {"label": label, "points": points, "slope": growth.slope(points)} for label, points in series if len(points) > 1
    ]
    return {"name": name, "title": values["title"], "missing": values.get("missing"), "tables": tables}


def _has_lines(studies: dict) -> bool:
    return any(len(growth.series(values["ms"], "clients")) > 1 for values in studies.values())
