"""Spawned nodes: tasks that a running node adds to its run, below itself."""

import hashlib
from collections.abc import Collection
from uuid import UUID

from gnomon.model.ids import uuid7
from gnomon.workflow.graph import Becomes

MOST_SPAWNS = 1_000  # of one execution
MOST_SPAWN_BYTES = 256 * 1024  # of all these together, as JSON
MOST_LEVELS = 50  # what is spawned may spawn in turn
FIRST_PLACE = 2_000_000_000  # of spawned nodes: after all others
COMPENSATION = "compensate:"  # begins the names of nodes that undo others


def spawned_id(spawner: UUID, number: int) -> UUID:
    """The id of a spawned task, always the same, so that spawning twice does nothing; with the
    time of the spawning task's id, so that its archive is there."""
    digest = hashlib.sha256(b"spawn" + spawner.bytes + number.to_bytes(4)).digest()
    return uuid7(spawner.int >> 80, int.from_bytes(digest[:10]))


def spawned_name(node: str, number: int) -> str:
    """What a spawned node is called: `crawl/3`."""
    return f"{node}/{number}"


def level_of(node: str) -> int:
    """How many nodes have spawned each other above this one."""
    return node.count("/")


def cannot_spawn(node: str | None) -> str | None:
    """Why a task cannot spawn others; None: it can. `node`: of the run that it is in."""
    if node is None:
        return (
            "only a task of a workflow run can spawn others, and this one is in none: submit what "
            "is to follow, or make this task a step of a workflow"
        )
    if node.startswith(COMPENSATION):
        return "what undoes a node cannot spawn others: submit what is to follow"
    if level_of(node) >= MOST_LEVELS:
        return f"spawned tasks spawn at most {MOST_LEVELS} levels deep, and {node} is the last"
    return None


def joined(own: Becomes, spawned: Collection[Becomes]) -> Becomes:
    """What a node counts as, once all that it has spawned, or its elements, have ended: one that
    has succeeded as its worst."""
    if own is not Becomes.SUCCEEDED:
        return own
    for each in (Becomes.FAILED, Becomes.CANCELLED):
        if each in spawned:
            return each
    return own
