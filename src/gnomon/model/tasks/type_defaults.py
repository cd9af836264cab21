"""Defaults of a task type: what its tasks have where their submission says nothing."""

import msgspec

from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import (
    DEFAULT_TIMEOUT,
    DeliveryMode,
    KeepPayload,
    check_mode,
    default_policy,
)


class TypeDefaults(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """The value of every field that can be left out: as the task type says, or else built in."""

    priority: Priority = Priority.MEDIUM
    delivery: DeliveryMode = DeliveryMode.AT_LEAST_ONCE
    retry_policy: RetryPolicy | None = None  # None: that of the delivery mode
    timeout_seconds: float = DEFAULT_TIMEOUT
    tags: tuple[str, ...] = ()
    queue: str | None = None
    preemptible: bool = False
    keep_payload: KeepPayload = KeepPayload.ALWAYS
    sla_seconds: float | None = None
    warn_after_seconds: float | None = None
    expires_after_seconds: float | None = None  # after it is due
    jitter_seconds: float = 0.0
    log_transitions: bool = False  # no submission says otherwise

    def check_delivery(self) -> None:
        """Raises InvalidTask where the delivery mode forbids another default."""
        check_mode(self.delivery, self.retry_policy, preemptible=self.preemptible)

    def retry_policy_for(self, delivery: DeliveryMode) -> RetryPolicy:
        """The policy of a task that names none; one that its delivery mode forbids is left out."""
        policy = self.retry_policy
        if policy is None or (delivery is DeliveryMode.AT_MOST_ONCE and policy.max_retries > 0):
            return default_policy(delivery)
        return policy

    def preemptible_for(self, delivery: DeliveryMode) -> bool:
        """The same of preemption."""
        return self.preemptible and delivery is not DeliveryMode.AT_MOST_ONCE


BUILT_IN = TypeDefaults()
_decoder = msgspec.json.Decoder(TypeDefaults)


def type_defaults(text: bytes | str) -> TypeDefaults:
    """The defaults that are kept as JSON. Raises ValueError."""
    return _decoder.decode(text)
