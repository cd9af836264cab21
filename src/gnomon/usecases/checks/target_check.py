"""Refuses targets in requests: addresses that are not public, and targets that are not on the
allow-list of the tenant or the key. Nodes check again before each call."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from gnomon.access.addresses import AddressGuard
from gnomon.access.grant_errors import TargetForbidden
from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.allow_list import AllowList, listed
from gnomon.model.targets.queue_target import SCHEME, QueueTarget
from gnomon.model.targets.target import HttpTarget, Target
from gnomon.settings.queues import QueueConnection


class NamesTarget(Protocol):
    """A request with a target, given in full, as a callback, or by its task type."""

    @property
    def target(self) -> Target | msgspec.UnsetType | None: ...

    @property
    def callback_url(self) -> str | msgspec.UnsetType | None: ...


def check_target(guard: AddressGuard | None, asked: NamesTarget) -> None:
    """Raises InvalidTask, with the place, for an address that the guard refuses. A host name is
    checked when it is called, by the address that it has then. There is no guard without
    authentication, because all callers are on this machine then."""
    if guard is None:
        return
    if not isinstance(asked.target, msgspec.UnsetType) and asked.target is not None:
        _check(guard, asked.target, _place(asked.target, None))
    if not isinstance(asked.callback_url, msgspec.UnsetType) and asked.callback_url is not None:
        _check(guard, HttpTarget(asked.callback_url), "/callback_url")


def check_allowed(
    tenant: AllowList, by: Principal, target: Target, asked: NamesTarget | None = None
) -> None:
    """Raises TargetForbidden, with the place, where the tenant or the principal may not call the
    target."""
    check_own_target(by, target, asked)
    if not tenant.allows(target):
        raise TargetForbidden(tenant.refusal(target, "the tenant"), _place(target, asked))


def check_connection(
    connections: Mapping[str, QueueConnection] | None,
    tenant_id: str,
    target: Target,
    asked: NamesTarget | None = None,
) -> None:
    """Raises InvalidTask, with the place, for a message that no connection takes of the tenant.
    Without `connections` it is not known here."""
    if connections is None or not isinstance(target, QueueTarget):
        return
    found = connections.get(target.connection)
    if found is not None and found.is_for(tenant_id, target.topic):
        return
    topics = sorted(
        f"{SCHEME}://{name}/{topic}"
        for name, connection in connections.items()
        for topic in connection.topics_of(tenant_id)
    )
    may = f"it may publish to: {listed(topics)}" if topics else "it may not publish anywhere"
    raise InvalidTask(
        f"no connection {target.connection!r} of targets.queues lets the tenant publish to "
        f"{target.topic!r}; {may}",
        _place(target, asked),
    )


def check_own_target(by: Principal, target: Target, asked: NamesTarget | None = None) -> None:
    """Raises TargetForbidden, with the place, where the principal may not call the target."""
    if not by.allow.allows(target):
        raise TargetForbidden(by.allow.refusal(target, "your key"), _place(target, asked))


def _place(target: Target, asked: NamesTarget | None) -> str:
    """The place of the target in a request, or in a stored task where the request has none."""
    if asked is not None and isinstance(asked.callback_url, str):
        return "/callback_url"
    if asked is not None and asked.target is None:
        return "/task_type"
    return f"/target{target.pointer}"


def _check(guard: AddressGuard, target: Target, pointer: str) -> None:
    address = target.address  # None also for an invalid URL, which another check reports
    if address is not None and guard.refuses_host(address):
        detail = f"{address} is not a public address; others are called only in targets.allow"
        raise InvalidTask(detail, pointer)
