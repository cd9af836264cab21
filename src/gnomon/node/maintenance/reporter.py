"""Tells who listens what the node has and uses, once a second."""

from collections.abc import Callable

from gnomon.clock import Clock
from gnomon.node.membership.stage import Membership
from gnomon.node.workers import Executions
from gnomon.observe.events import Observer
from gnomon.observe.node_events import NodeSeen, PoolUse

EVERY_SECONDS = 1.0


class NodeReporter:
    """Looks at slots, shards, the clock and the connections."""

    def __init__(
        self,
        membership: Membership,
        runner: Executions,
        clock: Clock,
        connections: Callable[[], PoolUse],
        emit: Observer,
    ) -> None:
        self._membership = membership
        self._runner = runner
        self._clock = clock
        self._connections = connections
        self._emit = emit

    async def run_once(self) -> NodeSeen:
        seen = NodeSeen(
            slots=self._membership.entry.slots,
            busy=len(self._runner.running),
            shards=self._membership.shards,
            clock_offset=self._clock.offset(),
            connections=self._connections(),
        )
        self._emit(seen)
        return seen
