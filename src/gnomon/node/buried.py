"""Tells who listens which tasks became dead letters because they could not be read or settled."""

from collections.abc import Sequence

from gnomon.model.lifecycle import State
from gnomon.observe.events import EndCount, Observer, TaskBatch, TasksBuried
from gnomon.store.ports.dispatch import Buried


def tell_buried(emit: Observer, buried: Sequence[Buried]) -> None:
    """Each is dead now, without an execution that ended."""
    if not buried:
        return
    counts = [
        EndCount(each.key.tenant_id, each.task_type, each.lane, None, State.DEAD, 1, 0.0)
        for each in buried
    ]
    emit(TasksBuried(TaskBatch(lambda: iter(counts))))
