"""Tells who listens which tasks became dead letters because they could not be read or settled."""

from collections.abc import Sequence

from gnomon.model.tasks.lifecycle import State
from gnomon.observe.counts import Counted, EndCount
from gnomon.observe.events import Observer, TasksBuried
from gnomon.store.ports.dispatch import Buried


def tell_buried(emit: Observer, buried: Sequence[Buried]) -> None:
    """Each is dead now, without an execution that ended."""
    if not buried:
        return
    counts = [
        EndCount(
            b.key.tenant_id, b.task_type, b.lane, b.recurring, None, True, State.DEAD, 1, [], 0.0
        )
        for b in buried
    ]
    emit(TasksBuried(Counted(lambda: counts)))
