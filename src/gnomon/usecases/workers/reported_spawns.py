"""Spawns that a remote worker reports: the types, handlers and queues of its key bound them."""

import msgspec

from gnomon.access.principal import Principal
from gnomon.model.targets.target import PythonTarget
from gnomon.pipe.http.messages import Poll, WorkerReport


class _Spawned(msgspec.Struct):
    task_type: str = ""
    queue: str | None = None


def within_key(poll: Poll, by: Principal) -> Poll:
    """The poll, in which a report whose spawns the key is not for is a failure that says so."""
    if not any(report.spawns for report in poll.reports):
        return poll
    return msgspec.structs.replace(
        poll, reports=tuple(_within_key(report, by) for report in poll.reports)
    )


def _within_key(report: WorkerReport, by: Principal) -> WorkerReport:
    for number, spawned in enumerate(report.spawns):
        refused = _refusal(bytes(spawned), by)
        if refused is not None:
            return msgspec.structs.replace(
                report,
                outcome="failed",
                result=msgspec.UNSET,
                error=f"what it has spawned is refused: /{number}: {refused}",
                retryable=False,
                spawns=(),
            )
    return report


def _refusal(spawned: bytes, by: Principal) -> str | None:
    try:
        asked = msgspec.json.decode(spawned, type=_Spawned)
    except msgspec.DecodeError as error:
        return str(error)
    name = asked.task_type
    if by.task_types is not None and name not in by.task_types:
        return f"the key of its worker is not for tasks of type {name[:200]}"
    if not by.allow.allows(PythonTarget(name)):
        return f"the key of its worker is not for the handler {name[:200]}"
    if by.queues is not None and asked.queue not in by.queues:
        return "the key of its worker is not for its queue"
    return None
