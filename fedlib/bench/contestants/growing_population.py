"""The engine on one population of growing size: all cases share the data of the largest."""

from dataclasses import replace

from fedlib.bench import growth
from fedlib.bench.contestants import Serve, fedlib_engine
from fedlib.bench.workloads import Workload


def run(workload: Workload, serve: Serve) -> None:
    everyone = fedlib_engine.federate(workload)
    plays = {
        name: fedlib_engine.averaging(case, replace(everyone, rows=everyone.rows[: case.clients]))
        for name, case in growth.cases(workload).items()
    }
    serve(plays, fedlib_engine.facts())
