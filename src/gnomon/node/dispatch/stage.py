"""Starts what is ready: claims it for this node's slots, or steals where they would be idle."""

from gnomon.chores import Service, whenever
from gnomon.clock import Clock
from gnomon.node.ahead.stage import AheadStage
from gnomon.node.dispatch.dispatcher import Dispatcher
from gnomon.node.dispatch.stealer import Stealer
from gnomon.node.signals import Signals

_LONGEST_SLEEP = 1.0
_SHORTEST_STEAL = 0.02  # between looks for more: a probe of many shards for one slot is dear
_REST, _LONGEST_REST = 10, 5.0  # times as long as a look that found nothing; seconds


class DispatchStage:
    """Calls the dispatcher whenever something is ready, and the stealer whenever nothing is."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        stealer: Stealer,
        ahead: AheadStage,
        signals: Signals,
        clock: Clock,
        steal_seconds: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._stealer = stealer
        self._ahead = ahead
        self._signals = signals
        self._clock = clock
        self._steal_seconds = steal_seconds
        self._more_to_steal = False
        self._rest = 0.0  # seconds, after a look that took long and found nothing

    def services(self) -> list[Service]:
        ready = self._signals.ready
        return [
            whenever("dispatch", self.dispatch, self._clock, ready, _LONGEST_SLEEP, yields=True),
            Service("steal", self.steal, self._until_idle, yields=True),
        ]

    async def dispatch(self) -> None:
        while (result := await self._dispatcher.run_once()).chosen:
            if result.claimed < result.chosen:
                self._signals.due.set()  # it will be looked at again soon
            if result.started_over:
                self._signals.look.set()
            if result.claimed:
                self._ahead.claimed()
            if not self._dispatcher.awaits():
                break  # what was claimed starts now, and not after a look in vain
        self._ahead.look_for_herd()

    async def steal(self) -> None:
        if not self._dispatcher.idle():
            return
        self._more_to_steal = False
        began = self._clock.monotonic()
        result = await self._stealer.run_once()
        # What others cannot serve either may be walked in vain, by every node that is idle.
        took = 0.0 if result.found else self._clock.monotonic() - began
        self._rest = min(_REST * took, _LONGEST_REST)
        self._more_to_steal = result.more
        if self._more_to_steal and self._dispatcher.idle():
            self._signals.room.set()

    async def _until_idle(self) -> None:
        """Look now and then; while others have more than they can do, whenever there is room."""
        interval = self._steal_seconds / 2
        if self._more_to_steal:
            await self._clock.wait(self._signals.room, interval)
            await self._clock.sleep(min(_SHORTEST_STEAL, interval))
        else:
            await self._clock.sleep(max(interval, self._rest))
        self._signals.room.clear()
