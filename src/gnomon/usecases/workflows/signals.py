"""Sends signals to runs of workflows."""

from datetime import datetime
from uuid import UUID

from gnomon.access.principal import Principal
from gnomon.store.ports.work.workflows import RunSignal
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.authorization import check_whole
from gnomon.usecases.tasks.task_template import payload_of
from gnomon.usecases.workflows.node_waits import SendSignal
from gnomon.workflow.wait import MOST_SIGNAL_BYTES


def signal_in(by: Principal, name: str, asked: SendSignal, now: datetime) -> RunSignal:
    """The signal that is asked for. Raises PayloadTooLarge, InvalidTask, with the place."""
    return RunSignal(name, payload_of(asked.data, MOST_SIGNAL_BYTES, "/data"), now, by.name)


async def send(
    change: PostgresTaskChange, by: Principal, run_id: UUID, sent: RunSignal
) -> RunSignal:
    """Sends a signal, and gives the one that holds. Raises LimitedKey, WorkflowRunNotFound,
    RunHasEnded, SignalDiffers, TooManySignals."""
    check_whole(by)
    return await change.workflows.signal(run_id, sent)
