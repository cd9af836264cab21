"""Takes due work of other nodes that do not get to it, while this one has nothing to do.

Which node serves a shard is a matter of speed only, so any node may claim any waiting task. A
task that is overdue by `steal_seconds` belongs to a node that has more than it can do, is about to
leave, or is dead and not yet known to be.
"""

import msgspec

from gnomon.clock import Chance
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.dispatch.dispatcher import Dispatcher
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import DispatchStore, Entry


class StealResult(msgspec.Struct, frozen=True):
    """How many entries a look found and claimed; `more`: look again at once."""

    found: int = 0
    stolen: int = 0
    more: bool = False


class Stealer:
    """Takes from all foreign shards alike, and no more than can begin at once: what is claimed
    ahead could not be run by a third."""

    def __init__(
        self,
        store: DispatchStore,
        scanner: Scanner,
        dispatcher: Dispatcher,
        chance: Chance,
        settings: NodeSettings,
    ) -> None:
        self._store = store
        self._scanner = scanner
        self._dispatcher = dispatcher
        self._chance = chance
        self._seconds = settings.steal_seconds

    async def run_once(self) -> StealResult:
        """Fill idle slots."""
        most = self._dispatcher.idle()
        shards = self._foreign()
        if not most or not shards:
            return StealResult()
        each = -(-most // len(shards))
        entries = await self._store.stealable(
            shards,
            self._seconds,
            each,
            most,
            suspects=self._dispatcher.has_room_for_suspects(),
            pool=self._scanner.territory.pool,
        )
        if not entries:
            return StealResult()
        stolen = (await self._dispatcher.steal(entries)).claimed
        filled = len(entries) == most or _fullest(entries) == each
        return StealResult(len(entries), stolen, more=stolen > 0 and filled)

    def _foreign(self) -> list[int]:
        """The shards of others, from a place by chance on: what is read ends when it is enough,
        and two stealers should not begin at the same one."""
        own = self._scanner.territory
        # Where the pools of others go first, only a part of a shard is ours.
        foreign = sorted(set(range(SHARDS)) - (own.shards - own.others.keys()))
        start = int(self._chance() * len(foreign))
        return foreign[start:] + foreign[:start]


def _fullest(entries: list[Entry]) -> int:
    counts: dict[int, int] = {}
    for entry in entries:
        shard = shard_of(entry.key.id)
        counts[shard] = counts.get(shard, 0) + 1
    return max(counts.values())
