"""How many bytes of a tenant's quota `stored_bytes` things take.

The rows themselves, with their places in indexes, are taken for so many bytes each, whatever they
are; what tenants choose the size of is counted as it was sent. A count (`storage`) finds what
PostgreSQL really has, which compresses some of it: so what is counted here is never too little.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from msgspec.structs import astuple

from gnomon.model.tasks.task import Submission

TASK_BYTES = 500  # of a task, live or finished
EXECUTION_BYTES = 200  # of an execution that did not succeed (as in settle.sql)
FIRE_BYTES = 150  # of an entry in the ledger of cron jobs
JOB_BYTES = 500  # of a cron job, beside its definition
KEY_BYTES = 200  # of an idempotency key, beside its answer (as in answer_key.sql)
EVENT_BYTES = 200
ORIGIN_BYTES = 60  # of the names in it
TRANSITION_BYTES = 200
_TRANSITIONS = 4  # that most tasks have whose type logs them; a count finds the others


def of_tasks(
    batch: Sequence[Submission],
    targets: Sequence[object],
    beside: Mapping[UUID, int],
    *,
    plain: bool,
) -> list[int]:
    """Of new tasks, in their order. `targets`: as they are stored, or one for all. `plain`: none of
    them has a name, tags, a key, a cron job, an origin or transitions."""
    base = TASK_BYTES + (_length(str(targets[0])) if len(targets) == 1 else 0)
    sizes = [base if s.payload is None else base + len(s.payload) for s in batch]
    if len(targets) > 1:
        sizes = [size + _length(str(t)) for size, t in zip(sizes, targets, strict=True)]
    if plain and not beside:
        return sizes
    return [size + _chosen(s, beside) for size, s in zip(sizes, batch, strict=True)]


def _chosen(submission: Submission, beside: Mapping[UUID, int]) -> int:
    """The bytes of fields that most tasks do not have."""
    size = beside.get(submission.id, 0)
    if submission.name is not None:
        size += _length(submission.name)
    if submission.tags:
        size += sum(_length(tag) + 4 for tag in submission.tags)
    if submission.idempotency_key is not None:
        size += 2 * _length(submission.idempotency_key)  # with it, and with its task
    if submission.cron_job_id is not None:
        size += FIRE_BYTES
    if submission.origin is not None:
        size += ORIGIN_BYTES + sum(map(len, filter(None, astuple(submission.origin))))
    if submission.log_transitions:
        size += _TRANSITIONS * TRANSITION_BYTES
    return size


def of_job(definition: str) -> int:
    """Of a cron job whose definition is stored like this."""
    return JOB_BYTES + _length(definition)


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
