"""Refuses targets that can be seen not to be allowed before they are called: addresses that are not
public, and what is not on the allow-list of the tenant or the key."""

from typing import Protocol

import msgspec

from gnomon.access.addresses import AddressGuard
from gnomon.access.grant_errors import TargetForbidden
from gnomon.access.principal import Principal
from gnomon.model.allow_list import AllowList
from gnomon.model.errors import InvalidTask
from gnomon.model.target import HttpTarget, Target


class NamesTarget(Protocol):
    """A request that says what to call, in full or in short."""

    @property
    def target(self) -> Target | msgspec.UnsetType | None: ...

    @property
    def callback_url(self) -> str | msgspec.UnsetType | None: ...


def check_target(guard: AddressGuard | None, asked: NamesTarget) -> None:
    """Raises InvalidTask, with the place. No guard is where there is no authentication: whoever can
    ask is on this machine already. A name is judged when it is called, by what it leads to then."""
    if guard is None:
        return
    if not isinstance(asked.target, msgspec.UnsetType) and asked.target is not None:
        _check(guard, asked.target, _place(asked.target, None))
    if not isinstance(asked.callback_url, msgspec.UnsetType) and asked.callback_url is not None:
        _check(guard, HttpTarget(asked.callback_url), "/callback_url")


def check_allowed(
    tenant: AllowList, by: Principal, target: Target, asked: NamesTarget | None = None
) -> None:
    """Raises TargetForbidden, with the place, where a new call of the target is not allowed to the
    tenant, or not to whoever asks."""
    check_own_target(by, target, asked)
    if not tenant.allows(target):
        raise TargetForbidden(tenant.refusal(target, "the tenant"), _place(target, asked))


def check_own_target(by: Principal, target: Target, asked: NamesTarget | None = None) -> None:
    """Raises TargetForbidden, with the place, where it is not theirs to call, or to change what
    calls it."""
    if not by.allow.allows(target):
        raise TargetForbidden(by.allow.refusal(target, "your key"), _place(target, asked))


def _place(target: Target, asked: NamesTarget | None) -> str:
    """Where it was said what to call. It stands in what is stored where nothing was."""
    if asked is not None and isinstance(asked.callback_url, str):
        return "/callback_url"
    return f"/target{target.pointer}"


def _check(guard: AddressGuard, target: Target, pointer: str) -> None:
    address = target.address  # None also where it cannot be read: that is said elsewhere
    if address is not None and guard.refuses_host(address):
        detail = f"{address} is not a public address; webhooks reach others only in targets.allow"
        raise InvalidTask(detail, pointer)
