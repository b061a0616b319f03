"""The engine on one population of growing size: all cases share the data of the largest."""

from dataclasses import replace

from fedlib.bench import growth
from fedlib.bench.contestants import engine
from fedlib.bench.workloads import Workload


def run(workload: Workload, serve) -> None:
    everyone = engine.federate(workload)
    plays = {
        name: engine.averaging(case, replace(everyone, rows=everyone.rows[: case.clients]))
        for name, case in growth.cases(workload).items()
    }
    serve(plays, engine.facts())
