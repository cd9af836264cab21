"""The tasks that a node has claimed and not settled, as all of its parts know them."""

import asyncio

from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.suspects import SuspectRoom


class HeldTasks:
    """Written by the dispatcher and the recorder. `claiming` is locked while the answer to a claim
    is outstanding, and `taking` while that to a settlement is which may claim: until then nobody
    knows what is held. A settlement may wait for others, so claims do not wait for it. Whoever
    needs both takes `taking` first."""

    def __init__(self, suspects: SuspectRoom) -> None:
        self.fences: dict[TaskKey, int] = {}  # of those that run, or are about to
        self.stuck: dict[TaskKey, int] = {}  # ran, and cannot be settled: never released
        self.suspects = suspects
        self.claiming = asyncio.Lock()
        self.taking = asyncio.Lock()
        self.stopped = False  # nothing more is claimed

    def holds(self, key: TaskKey, fence: int) -> bool:
        return fence in (self.fences.get(key), self.stuck.get(key))
