"""The proof harness at work: a short campaign that must find nothing, and planted bugs that it
must find. `make chaos` and `make zoo` do the same at length."""

import os
from collections import Counter

import pytest
from proof.campaigns import zoo
from proof.campaigns.campaign import run
from proof.campaigns.faults import FAMILIES, POSTGRES, REDIS, Planned
from proof.campaigns.foreign import LANGUAGES, missing
from proof.campaigns.orders import REMOTE, Mix
from proof.campaigns.progress import Progress
from proof.campaigns.setup import Setup

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

# The machine may have other things to do, so what was killed has time to come back.
FAULTS = [
    Planned(kind="kill", victim="node-1", at=3.0, seconds=0.3),
    Planned(kind="cut", victim="node-2", at=4.0),
    Planned(kind="pause", victim="node-3", at=5.0, seconds=3.5),
    Planned(kind="postgres_immediate", victim=POSTGRES, at=10.0, seconds=0.3),
    Planned(kind="lost_answer", victim="api-1", at=13.0, seconds=4.0, amount=1),
    Planned(kind="black_hole", victim="node-2", at=13.0, seconds=3.0),
    Planned(kind="crash_point", victim="node-3", at=17.0, seconds=5.0, point="after_call"),
    Planned(kind="postgres_fast", victim=POSTGRES, at=19.0, seconds=0.2),
    Planned(kind="kill", victim="api-1", at=20.0, seconds=0.2),
]


async def test_a_short_campaign_finds_nothing_wrong() -> None:
    mix = Mix(workflows=0.3)
    setup = Setup(name="short", seed=1, seconds=23.0, rate=20.0, faults=FAULTS, mix=mix)
    with Progress(setup.name) as progress:
        result = await run(setup, progress)
    assert not result.judgement.wrong
    struck = Counter(fault.kind for fault in result.history.faults if fault.took_effect)
    for family, kinds in FAMILIES.items():
        assert any(struck[kind] for kind in kinds), f"none of the {family} took effect"
    assert result.judgement.acknowledged > 100
    assert result.judgement.effects > 0
    assert sum(len(each.after) > 1 for each in result.history.submitted) > 5, "joins of workflows"


# Workers in three languages, each struck in another way; a gateway, and a worker together with it.
# The other one serves all the time, however long a process takes to start.
REMOTE_FAULTS = [
    Planned(kind="kill", victim="worker-2", at=3.0, seconds=0.3),
    Planned(kind="cut", victim="worker-1", at=3.5),
    Planned(kind="pause", victim="worker-3", at=4.0, seconds=7.0),
    Planned(kind="lost_answer", victim="worker-1", at=5.0, seconds=4.0, amount=2),
    Planned(kind="kill", victim="worker-1", at=12.0, seconds=0.3),
    Planned(kind="kill", victim="api-1", at=12.0, seconds=0.3),
    Planned(kind="delay", victim="worker-2", at=13.0, seconds=2.0, amount=0.3),
]


async def test_a_short_campaign_with_workers_in_three_languages_finds_nothing_wrong() -> None:
    if missing() and not os.environ.get("CI"):
        pytest.skip(f"{' and '.join(missing())} are not installed")
    setup = Setup(
        name="remote", seed=1, seconds=16.0, rate=15.0, faults=REMOTE_FAULTS, mix=REMOTE, nodes=1,
        apis=2, workers=3, languages=LANGUAGES, lease=5.0,
    )  # fmt: skip
    with Progress(setup.name) as progress:
        result = await run(setup, progress)
    assert not result.judgement.wrong
    struck = {
        f"{fault.kind} {fault.victim}" for fault in result.history.faults if fault.took_effect
    }
    assert {"kill worker-2", "pause worker-3", "kill api-1", "kill worker-1"} <= struck
    callers = {call.node for call in result.history.calls}
    assert callers >= {"worker-1", "worker-2", "worker-3"}
    assert result.judgement.acknowledged > 80


# Redis is started without data. It stands still for less than a lease, and a worker for longer.
REDIS_FAULTS = [
    Planned(kind="redis_cut", victim=REDIS, at=2.0),
    Planned(kind="redis_full", victim=REDIS, at=3.0, seconds=2.0),
    Planned(kind="pause", victim="worker-1", at=3.5, seconds=6.0),
    Planned(kind="redis_kill", victim=REDIS, at=6.0, seconds=0.5),
    Planned(kind="redis_pause", victim=REDIS, at=8.5, seconds=1.0),
    Planned(kind="kill", victim="worker-2", at=11.0, seconds=0.3),
]


async def test_a_short_campaign_with_workers_behind_redis_finds_nothing_wrong() -> None:
    setup = Setup(
        name="redis", seed=1, seconds=13.0, rate=15.0, faults=REDIS_FAULTS, mix=REMOTE, nodes=1,
        apis=1, workers=2, pipe="redis", lease=5.0,
    )  # fmt: skip
    with Progress(setup.name) as progress:
        result = await run(setup, progress)
    assert not result.judgement.wrong
    struck = {fault.kind for fault in result.history.faults if fault.took_effect}
    assert struck == {each.kind for each in REDIS_FAULTS}
    assert {call.node for call in result.history.calls} >= {"worker-1", "worker-2"}
    assert result.judgement.acknowledged > 80


@pytest.mark.parametrize("name", ["claims-early", "starts-held-early", "retry-as-complete"])
async def test_a_planted_bug_is_found(name: str) -> None:
    found = await zoo.hunt(name)
    assert found.right, found.readable()
