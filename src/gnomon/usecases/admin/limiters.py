"""Limiters of a tenant: created, replaced and removed. A limited key changes those of its own task
types only."""

import contextlib
import re

from gnomon.access.principal import Principal
from gnomon.limits.limiter import Limiter
from gnomon.model.errors import InvalidTask, LimiterNotFound
from gnomon.model.tenant import EXECUTIONS_PER_MINUTE
from gnomon.store.ports.limits import LimiterUse
from gnomon.store.postgres.limits.limiters import PostgresLimiters
from gnomon.usecases.checks.authorization import check_whole
from gnomon.usecases.checks.text_check import check_line

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_POINTER = re.compile(r"(/([^~/]|~[01])*)+")


async def get(store: PostgresLimiters, by: Principal, name: str) -> LimiterUse:
    """A limiter, and how much of it is in use. Raises LimiterNotFound."""
    return await store.get(by.tenant_id, _known(name))


async def put(store: PostgresLimiters, by: Principal, limiter: Limiter) -> bool:
    """Creates or replaces a limiter; returns whether it is new. Raises InvalidTask, LimitedKey,
    TypeForbidden, TooManyLimiters."""
    _check(limiter)
    check_whole(by, limiter.task_type)
    await _check_present(store, by, limiter.name)
    return await store.put(limiter)


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
