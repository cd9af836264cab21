"""Limiters of a tenant: created, replaced and removed. A limited key changes those of its own task
types only."""

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gnomon.access.principal import Principal
from gnomon.limits.limiter import Bucket, Limiter, buckets
from gnomon.model.errors import InvalidTask, LimiterNotFound
from gnomon.model.fleet.tenant import EXECUTIONS_PER_MINUTE
from gnomon.store.ports.insight.stats import CappedCount, DueFlows
from gnomon.store.ports.tenancy.limits import KeyUse, LimiterUse
from gnomon.store.postgres.limits.limiters import MOST_KEYS, PostgresLimiters
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.checks.authorization import check_whole
from gnomon.usecases.checks.text_check import check_line

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_POINTER = re.compile(r"(/([^~/]|~[01])*)+")


async def list_all(
    store: PostgresLimiters, tasks: PostgresTasks, tenant_id: str
) -> Sequence[LimiterUse]:
    """All limiters by name, how much of each is in use, and what waits."""
    found = await store.list(tenant_id)
    if not found:
        return found
    due = await tasks.due_flows(tenant_id)
    # In a thread: with many limiters and flows it takes a while, and other requests wait.
    return await asyncio.to_thread(_with_waiting, found, due)


async def list_with_keys(
    store: PostgresLimiters, tasks: PostgresTasks, tenant_id: str
) -> Sequence[LimiterUse]:
    """All limiters as `list_all` gives them, with the fullest keys of those that something waits
    for: only they tell whether a limiter with a key holds it up."""
    found = await store.list(tenant_id)
    if not found:
        return found
    due = await tasks.due_flows(tenant_id)
    uses = await asyncio.to_thread(_with_waiting, found, due)
    keyed = [use.limiter for use in uses if use.limiter.key and use.waiting.count]
    if not keyed:
        return uses
    keys = await store.keys(tenant_id, keyed)
    known = [msgspec.structs.replace(use, keys=keys.get(use.limiter.name)) for use in uses]
    return await asyncio.to_thread(_with_waiting, known, due)


async def get(
    store: PostgresLimiters, tasks: PostgresTasks, by: Principal, name: str
) -> LimiterUse:
    """A limiter, how much of it is in use, and what waits; the fullest of its keys, if it has any.
    Raises LimiterNotFound."""
    found = await store.get(by.tenant_id, _known(name))
    due = await tasks.due_flows(by.tenant_id)
    (use,) = await asyncio.to_thread(_with_waiting, [found], due)
    return use


def _with_waiting(found: Iterable[LimiterUse], due: DueFlows) -> list[LimiterUse]:
    uses = list(found)
    waiting: dict[Bucket, CappedCount] = {}
    nothing = CappedCount(0, due.more)
    for each in due.flows:
        for _, bucket in buckets([use.limiter for use in uses], each.flow):
            waiting[bucket] = waiting.get(bucket, nothing).plus(each.due, more=each.more)
    keys: dict[str, dict[str, CappedCount]] = {}
    for bucket, count in waiting.items():
        keys.setdefault(bucket.limiter, {})[bucket.key] = count
    return [_counted(use, keys.get(use.limiter.name, {}), nothing) for use in uses]


def _counted(
    use: LimiterUse, waiting: Mapping[str, CappedCount], nothing: CappedCount
) -> LimiterUse:
    total = nothing
    for count in waiting.values():
        total = total.plus(count.count, more=count.capped)
    keys = use.keys
    if keys is not None:
        known = {each.key: each for each in keys}
        longest = sorted(waiting, key=lambda key: -waiting[key].count)
        names = [*known, *(key for key in longest if key not in known)][:MOST_KEYS]
        keys = [
            msgspec.structs.replace(
                known.get(name, KeyUse(name)), waiting=waiting.get(name, nothing)
            )
            for name in names
        ]
    return msgspec.structs.replace(use, waiting=total, keys=keys)


async def put(store: PostgresLimiters, by: Principal, limiter: Limiter) -> bool:
    """Creates or replaces a limiter; returns whether it is new. Raises InvalidTask, LimitedKey,
    TypeForbidden, TooManyLimiters."""
    _check(limiter)
    check_whole(by, limiter.task_type)
    await _check_present(store, by, limiter.name)
    return await store.put(limiter)


async def check_free(store: PostgresLimiters, by: Principal, name: str) -> None:
    """Raises InvalidTask where there is a limiter of this name, LimiterNotFound where it cannot be
    a name."""
    with contextlib.suppress(LimiterNotFound):
        await store.get(by.tenant_id, _known(name))
        raise InvalidTask(
            "is the name of another limiter; choose another, or change that one", "/name"
        )


async def delete(store: PostgresLimiters, by: Principal, name: str) -> None:
    """Raises LimiterNotFound, LimitedKey, TypeForbidden."""
    await _check_present(store, by, _known(name))
    await store.delete(by.tenant_id, name)


async def _check_present(store: PostgresLimiters, by: Principal, name: str) -> None:
    """Raises LimitedKey, TypeForbidden where the requester may not change the present limiter."""
    if by.limited:
        with contextlib.suppress(LimiterNotFound):
            present = await store.get(by.tenant_id, name)
            check_whole(by, present.limiter.task_type)


def _known(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise LimiterNotFound(repr(name))
    return name


def _check(limiter: Limiter) -> None:
    if _NAME.fullmatch(limiter.name) is None:
        detail = "must be up to 100 letters, digits and . _ : -, and begin with a letter or digit"
        raise InvalidTask(detail, "/name")
    if limiter.name == EXECUTIONS_PER_MINUTE:
        raise InvalidTask("is the name of a quota; choose another", "/name")
    if limiter.concurrency is None and limiter.rate is None:
        raise InvalidTask("say what is limited: concurrency, rate, or both", "/concurrency")
    if limiter.key is not None and _POINTER.fullmatch(limiter.key) is None:
        raise InvalidTask("must be a JSON pointer, e.g. /customer_id", "/key")
    for field in ("task_type", "queue", "key"):
        check_line(getattr(limiter, field), f"/{field}")
