"""Feeds of outcomes of a tenant: created, replaced and removed. A limited key changes those of its
own task types only."""

import contextlib
import re
from collections.abc import Sequence

from gnomon.access.principal import Principal
from gnomon.clock import new_id
from gnomon.model.errors import InvalidTask
from gnomon.model.feed_errors import FeedNotFound
from gnomon.model.insight.outcome_feed import FeedState, OutcomeFeed
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.store.postgres.feeds.feed_store import PostgresFeeds
from gnomon.usecases.checks.authorization import check_whole
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.target_check import check_allowed, check_connection
from gnomon.usecases.checks.text_check import check_line

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


async def list_all(store: PostgresFeeds, tenant_id: str) -> Sequence[FeedState]:
    """All feeds by name, and what waits for each."""
    return await store.list(tenant_id)


async def get(store: PostgresFeeds, by: Principal, name: str) -> FeedState:
    """Raises FeedNotFound."""
    return await store.get(by.tenant_id, _known(name))


async def put(store: PostgresFeeds, rules: TenantRules, by: Principal, feed: OutcomeFeed) -> bool:
    """Creates or replaces a feed; returns whether it is new. Raises InvalidTask, LimitedKey,
    TypeForbidden, TargetForbidden, TooManyFeeds."""
    _check(feed)
    _check_types(by, feed)
    _check_url(rules, by, feed)
    await _check_present(store, by, feed.name)
    return await store.put(feed, new_id(rules.clock.now()))


async def delete(store: PostgresFeeds, by: Principal, name: str) -> None:
    """Raises FeedNotFound, LimitedKey, TypeForbidden."""
    await _check_present(store, by, _known(name))
    await store.delete(by.tenant_id, name)


async def _check_present(store: PostgresFeeds, by: Principal, name: str) -> None:
    """Raises LimitedKey, TypeForbidden where the requester may not change the present feed."""
    if by.limited:
        with contextlib.suppress(FeedNotFound):
            _check_types(by, (await store.get(by.tenant_id, name)).feed)


def _check_types(by: Principal, feed: OutcomeFeed) -> None:
    types: Sequence[str | None] = feed.task_types or [None]
    for each in types:
        check_whole(by, each)


def _check_url(rules: TenantRules, by: Principal, feed: OutcomeFeed) -> None:
    target = QueueTarget(feed.url)
    try:
        target.check()
        check_allowed(rules.allow_list(by.tenant_id), by, target)
        check_connection(rules.queues, by.tenant_id, target)
    except InvalidTask as error:
        error.pointer = "/url"  # it is not a task's
        raise
    except ValueError as error:
        raise InvalidTask(str(error).removeprefix("url "), "/url") from None


def _known(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise FeedNotFound(repr(name))
    return name


def _check(feed: OutcomeFeed) -> None:
    if _NAME.fullmatch(feed.name) is None:
        detail = "must be up to 100 letters, digits and . _ : -, and begin with a letter or digit"
        raise InvalidTask(detail, "/name")
    for field in ("task_types", "outcomes"):
        values = getattr(feed, field)
        if values is not None and len({*values}) < max(len(values), 1):
            raise InvalidTask("must name at least one, and none twice", f"/{field}")
    for place, task_type in enumerate(feed.task_types or ()):
        check_line(task_type, f"/task_types/{place}")
