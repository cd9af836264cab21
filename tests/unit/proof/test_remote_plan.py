"""Plans of campaigns with remote workers."""

from collections import Counter

import msgspec
from proof.campaigns import points
from proof.campaigns.faults import WORKER_POINTS, Planned
from proof.campaigns.setup import Setup

SETUP = Setup(seconds=1080.0, workers=3, apis=2, nodes=1)


def test_workers_gateways_and_both_are_struck() -> None:
    plan = SETUP.planned()
    struck = Counter(planned.victim.partition("-")[0] for planned in plan)
    assert struck["worker"] > struck["api"] > 10
    assert _together(plan) > 1
    assert {p.victim for p in plan if p.victim.startswith("worker")} == set(SETUP.worker_names)


def _together(plan: list[Planned]) -> int:
    """How often a worker and a gateway are killed at once."""
    kills: dict[float, set[str]] = {}
    for planned in plan:
        if planned.kind == "kill":
            kills.setdefault(planned.at, set()).add(planned.victim.partition("-")[0])
    return sum(kinds == {"worker", "api"} for kinds in kills.values())


def test_the_points_of_workers_and_gateways_exist() -> None:
    of_worker = {p.point for p in SETUP.planned() if p.point and p.victim.startswith("worker")}
    of_api = {p.point for p in SETUP.planned() if p.point and p.victim.startswith("api")}
    assert of_worker <= set(WORKER_POINTS) <= set(points.WORKER_POINTS)
    assert of_api <= set(points.NODE_POINTS + points.API_POINTS)


def test_crash_points_are_for_workers_in_python() -> None:
    setup = msgspec.structs.replace(SETUP, languages=("python", "javascript", "go"))
    of_workers = {p.victim for p in setup.planned() if p.point and p.victim.startswith("worker")}
    assert of_workers == {"worker-1"}
    struck = {p.victim for p in setup.planned() if p.kind == "kill"}
    assert set(setup.worker_names) <= struck
