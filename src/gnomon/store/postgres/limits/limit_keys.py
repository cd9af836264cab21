"""The keys of limits on new tasks, wherever they come from."""

from collections.abc import Callable, Sequence

import msgspec

from gnomon.limits.limiter import Limiter, limit_keys
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.work.tasks import NewTask

LimitersOf = Callable[[str], Sequence[Limiter]]  # of a tenant


def no_limiters(tenant_id: str) -> Sequence[Limiter]:
    del tenant_id
    return ()


def limited(new: NewTask, limiters: Sequence[Limiter]) -> NewTask:
    if not limiters:
        return new
    return msgspec.structs.replace(new, submission=with_keys(new.submission, limiters))


def with_keys(submission: Submission, limiters: Sequence[Limiter]) -> Submission:
    """The submission with the keys that limiters find in its payload."""
    keys = limit_keys(limiters, submission.task_type, submission.queue, submission.payload)
    return submission if keys is None else msgspec.structs.replace(submission, limit_keys=keys)
