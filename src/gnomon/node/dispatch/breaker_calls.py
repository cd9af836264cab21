"""What a call says to breakers: which of them, and whether it failed."""

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import NotificationTarget
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.tenancy.breakers import Circuit

_TOO_MANY_REQUESTS = 429


def circuits_of(delivery: Delivery) -> tuple[Circuit, ...]:
    """The circuits that a call of it concerns."""
    tenant_id, host = delivery.key.tenant_id, delivery.target.host
    if isinstance(delivery.target, NotificationTarget):
        # Subscribers share the notifier's tenant, and hosts: one that fails must stop no other.
        return ((tenant_id, f"{host} {delivery.target.subscription_id}"),)
    if host is None:
        return ((tenant_id, None),)
    return (tenant_id, None), (tenant_id, host)


def has_failed(outcome: Outcome, *, of_host: bool) -> bool | None:
    """Whether a call failed; None: it says nothing. A host that answers works, whatever it says
    about the request; and what went wrong on our side is not the fault of whoever was to be
    called."""
    if outcome.uncalled:
        return None
    match outcome.kind:
        case OutcomeKind.SUCCEEDED | OutcomeKind.SNOOZED:
            return False
        case OutcomeKind.TIMED_OUT:
            return True
        case OutcomeKind.FAILED if not of_host:
            return True
        case OutcomeKind.FAILED if outcome.unreachable:
            return True
        case OutcomeKind.FAILED if outcome.response_status is not None:
            status = outcome.response_status
            return status >= 500 or status == _TOO_MANY_REQUESTS
        case _:
            return None
