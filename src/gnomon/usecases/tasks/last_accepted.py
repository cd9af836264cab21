"""Tasks of a batch that differ from the one before in nothing but their payloads, as most do: they
are checked for that alone."""

from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec

from gnomon.access.principal import Principal
from gnomon.model.tasks.task import Submission
from gnomon.usecases.checks.quota_check import check_payload
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.tasks.submit import asked_moment
from gnomon.usecases.tasks.task_requests import SubmitWithCallbacks
from gnomon.usecases.tasks.task_template import UNSET, payload_of

_but_payload = attrgetter(*(n for n in SubmitWithCallbacks.__struct_fields__ if n != "payload"))


class LastAccepted:
    """The last task of a batch that passed all checks, with all that its request said."""

    def __init__(self, rules: TenantRules, by: Principal, now: datetime) -> None:
        self._now = now
        self._most_bytes = rules.max_payload_bytes
        self._directory = rules.directory
        self._quotas = rules.directory.quotas(by.tenant_id)
        self._said: tuple[Any, ...] | None = None
        self._task: Submission | None = None

    def note(self, asked: SubmitWithCallbacks, task: Submission) -> None:
        """Another one that passed all checks. One whose start is spread by its id, or that has a
        key, is like no other."""
        jitter = asked.jitter_seconds
        if jitter is UNSET:
            jitter = self._directory.defaults(task.tenant_id, task.task_type).jitter_seconds
        # What a type leaves to its default may have changed since.
        moment = asked_moment(asked.execute_at, asked.delay_seconds, self._now) or self._now
        is_own = jitter or task.execute_at != moment or task.idempotency_key is not None
        self._said, self._task = (None, None) if is_own else (_but_payload(asked), task)

    def again(self, asked: SubmitWithCallbacks, task_id: UUID) -> Submission | None:
        """The task of a request that says the same but for its payload; None where it does not.
        Raises InvalidTask, with the place, for its payload."""
        if self._task is None or _but_payload(asked) != self._said:
            return None
        payload = payload_of(asked.payload, self._most_bytes)
        check_payload(payload, self._quotas)
        return msgspec.structs.replace(self._task, id=task_id, payload=payload)
