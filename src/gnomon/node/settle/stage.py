"""Records what became of tasks: of those that ran here, and of those whose node is dead."""

from gnomon.chores import Service, every
from gnomon.clock import Clock
from gnomon.node.settle.reconciler import Reconciler
from gnomon.node.settle.recorder import Recorder
from gnomon.node.settle.sweeper import Sweeper
from gnomon.settings import NodeSettings

_RECONCILE_SECONDS = 5.0
_OVERDUE_SECONDS = 5.0
_SETTLE_AGAIN_SECONDS = 1.0  # between looks at outcomes that could not be stored


class SettleStage:
    """Calls the recorder, the sweeper and the reconciler."""

    def __init__(
        self,
        recorder: Recorder,
        sweeper: Sweeper,
        reconciler: Reconciler,
        clock: Clock,
        settings: NodeSettings,
    ) -> None:
        self._recorder = recorder
        self._sweeper = sweeper
        self._reconciler = reconciler
        self._clock = clock
        self._settings = settings

    def services(self) -> list[Service]:
        clock = self._clock
        return [
            Service("record", self.record),
            Service("record-beside", self.record_beside),
            every("settle-again", self._recorder.settle_again, clock, _SETTLE_AGAIN_SECONDS),
            every("sweep", self._sweeper.run_once, clock, self._settings.sweep_seconds),
            every("overdue", self._sweeper.take_overdue, clock, _OVERDUE_SECONDS),
            every("reconcile", self._reconciler.run_once, clock, _RECONCILE_SECONDS),
        ]

    async def record(self) -> None:
        await self._recorder.run_once(self._settings.batch)

    async def record_beside(self) -> None:
        """Settle what has come together while a settlement is under way, beside it."""
        batch = self._settings.batch
        await self._recorder.run_once(batch, max(2, batch // 2))
