"""Tells the ready queue what runs, once a second, and everybody who waits, and for how long."""

from gnomon.clock import Clock
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.workers import Executions
from gnomon.observe.events import Observer, QueueSeen

EVERY_SECONDS = 1.0


class Accountant:
    """A task that runs on is charged to its tenant while it does, and not only at its end."""

    def __init__(self, agenda: Agenda, runner: Executions, clock: Clock, emit: Observer) -> None:
        self._agenda = agenda
        self._runner = runner
        self._clock = clock
        self._emit = emit

    async def run_once(self) -> QueueSeen:
        now = self._clock.seconds()
        self._agenda.runs(
            (key.tenant_id, now - execution.started_at)
            for key, execution in self._runner.running.items()
        )
        waits = self._agenda.longest_waits(self._clock.now())
        seen = QueueSeen(self._agenda.depths(), waits)
        self._emit(seen)
        return seen
