"""Lanes in which so much is due and waits that new tasks for them are refused. Pure.

A lane of a tenant is crowded by a quota of the tenant's own (`ready_tasks`), or because more than
`sharing.max_ready_tasks` wait in the whole installation and the tenant has more of them than its
fair share. LOW is refused first, CRITICAL last; whoever is within its share is never refused.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from gnomon.model.errors import GnomonError, OverQuota
from gnomon.model.tasks.priority import Lane

QUOTA = "ready_tasks"
SETTING = "sharing.max_ready_tasks"
SOON_SECONDS = 60.0  # tasks that are due later than that make no lane deeper now
LONGEST_WAIT, UNKNOWN_WAIT = 60, 5  # seconds that a client is told to wait
# The part of the threshold of the whole installation from which each lane is refused.
SHED_FROM: Mapping[Lane, float] = {
    Lane.LOW: 0.7,
    Lane.MEDIUM: 0.8,
    Lane.HIGH: 0.9,
    Lane.CRITICAL: 1.0,
}
_AGAIN = 0.9  # of a threshold, below which new tasks are accepted again


class LaneKey(NamedTuple):
    """One lane of one tenant."""

    tenant_id: str
    lane: Lane


class Crowd(NamedTuple):
    """How much waits where new tasks are refused."""

    ready: int
    most: int
    shared: bool  # of all lanes of the tenant, and by the threshold of the installation
    wait: int = UNKNOWN_WAIT  # seconds until there may be room


Crowds = Mapping[LaneKey, Crowd]


class LaneCrowded(GnomonError):
    """A task was refused because its lane is crowded."""

    def __init__(self, lane: Lane, crowd: Crowd, wait: int) -> None:
        super().__init__(_refusal(lane, crowd, wait))
        self.lane = lane
        self.crowd = crowd
        self.over = None if crowd.shared else OverQuota(QUOTA, crowd.most, crowd.ready)
        self.wait = wait


def _refusal(lane: Lane, crowd: Crowd, wait: int) -> str:
    remedy = (
        f"try again in {wait} s, or submit it for later than {SOON_SECONDS:g} s from now; "
        "what was accepted before goes on"
    )
    if crowd.shared:
        return (
            f"the installation has more due tasks than {SETTING} lets wait, and {crowd.ready} of "
            f"them are the tenant's, whose share is {crowd.most}: {lane.name} tasks are refused; "
            f"{remedy}"
        )
    return (
        f"{crowd.ready} {lane.name} tasks are due and wait, and the quota {QUOTA} is {crowd.most} "
        f"for each priority; {remedy}"
    )


def crowd_fact(lane: Lane, crowd: Crowd) -> str:
    """The crowd in words, for somebody whose task is in it."""
    bound = f"its share of {SETTING}" if crowd.shared else f"the quota {QUOTA}"
    of = "its tenant" if crowd.shared else lane.name
    return (
        f"{crowd.ready} tasks of {of} are due and wait, and {bound} is {crowd.most}: "
        f"new {lane.name} tasks are refused for now"
    )


def own_crowds(
    ready: Mapping[LaneKey, int], quotas: Mapping[str, int], before: Crowds
) -> dict[LaneKey, Crowd]:
    """Lanes that are over their tenants' quotas."""
    found = {}
    for key, number in ready.items():
        most = quotas[key.tenant_id]
        was = key in before and not before[key].shared
        if number >= most * (_AGAIN if was else 1):
            found[key] = Crowd(number, most, shared=False)
    return found


def shared_crowds(
    ready: Mapping[str, int], weights: Mapping[str, float], most: int, before: Crowds
) -> dict[LaneKey, Crowd]:
    """Lanes of the tenants that have more than their share where too much waits in all."""
    found = {}
    for lane, part in SHED_FROM.items():
        enters = fair_level(ready, weights, part * most)
        leaves = fair_level(ready, weights, part * most * _AGAIN)
        for tenant_id, number in ready.items():
            key = LaneKey(tenant_id, lane)
            was = key in before and before[key].shared
            level = leaves if was else enters
            if level is not None and number >= level * weights[tenant_id]:
                found[key] = Crowd(number, math.floor(level * weights[tenant_id]), shared=True)
    return found


def fair_level(ready: Mapping[str, int], weights: Mapping[str, float], most: float) -> float | None:
    """How many tasks may wait for each unit of weight, so that `most` wait in all and nobody
    waits with less for another who has more; None where there are fewer in all."""
    if sum(ready.values()) < most:
        return None
    left, weight = most, sum(weights[tenant_id] for tenant_id in ready)
    for tenant_id in sorted(ready, key=lambda each: ready[each] / weights[each]):
        if ready[tenant_id] > left / weight * weights[tenant_id]:
            break
        left -= ready[tenant_id]
        weight -= weights[tenant_id]
        if weight <= 0:
            return ready[tenant_id] / weights[tenant_id]  # all have exactly as much as may be
    return left / weight


def with_waits(found: Mapping[LaneKey, Crowd], before: Crowds, seconds: float) -> Crowds:
    """The same, with the time until there may be room: by how much has gone since the look
    before, `seconds` ago."""
    return {
        key: crowd._replace(wait=_wait(crowd, before.get(key), seconds))
        for key, crowd in found.items()
    }


def _wait(crowd: Crowd, before: Crowd | None, seconds: float) -> int:
    if before is None or before.shared != crowd.shared or before.ready <= crowd.ready:
        return UNKNOWN_WAIT
    pace = (before.ready - crowd.ready) / max(seconds, 0.001)
    left = crowd.ready - crowd.most * _AGAIN
    return min(LONGEST_WAIT, max(1, math.ceil(left / pace)))


def spread(wait: int, number: int) -> int:
    """The wait of the client with this number: up to half as long again, so that those who are
    refused together do not all come back together."""
    return wait + number % (wait // 2 + 1)


def counted_up_to(most: int) -> int:
    """Tasks of a lane that are worth counting: beyond the quota, to see how fast they go."""
    return most + most // 2 + 1
