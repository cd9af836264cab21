"""The overview: what waits and runs, how fast, how late, and what went wrong."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Context, Request, context_of, tenant_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.dashboard.addresses.time_range import RANGES, range_in
from gnomon.dashboard.drawing.charts import delay_chart, flow_chart, upcoming_chart
from gnomon.dashboard.rendering import page
from gnomon.dashboard.text import words
from gnomon.dashboard.text.event_words import shown
from gnomon.model.insight.activity import DELAY_BOUNDS, Counts, percentile
from gnomon.model.tasks.lifecycle import Status
from gnomon.store.ports.insight.activity import TypeActivity, UpcomingHour
from gnomon.store.ports.insight.events import EventFilter
from gnomon.store.ports.insight.stats import CappedCount, TaskStats
from gnomon.store.ports.tenancy.limits import LimiterUse
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.usecases.admin import breakers, limiters, nodes
from gnomon.usecases.admin.nodes import NodeStatus
from gnomon.usecases.tasks import activity
from gnomon.usecases.tasks.activity import Activity, ActivityQuestion

_EVENTS = 8
_DEAD = 5
_TYPES = 10
_RECENT = timedelta(minutes=5)
_MINOR = (Status.FAILED, Status.PAUSED, Status.BLOCKED, Status.COMPLETED, Status.CANCELLED)


class Figure(msgspec.Struct, frozen=True):
    """A number that matters, what it is of, and a line beside it."""

    name: str
    sign: str
    colour: str
    value: str
    about: str
    link: str
    used: float | None = None  # of a whole, between 0 and 1


@PageRoute("GET", "/", role=Role.READ)
async def show_overview(request: Request) -> ASGIResponse:
    context, tenant = context_of(request), tenant_of(request)
    now, chosen = context.clock.now(), range_in(request)
    # Three reads at a time: each counts for about as long as the others.
    stats, (upcoming, limits), (found, recent) = await asyncio.gather(
        context.store.stats(tenant, TaskFilter()),
        _ahead(context, tenant),
        _happened(context, tenant, chosen.question(now)),
    )
    dead = await context.store.list_dead(tenant, TaskFilter(), None, _DEAD)
    events = await context.events.list(tenant, EventFilter(acknowledged=False), None, _EVENTS)
    seen = (
        None
        if context.authenticator is not None
        else await nodes.overview(context.nodes, with_sessions=False)
    )
    living = (
        None
        if seen is None
        else [node for node in seen.nodes if not node.dead and node.kind != "session"]
    )
    return page(
        request,
        "overview.html",
        ranges=RANGES,
        chosen=chosen,
        figures=_figures(stats, recent, living),
        minor=_minor(stats),
        lanes=[(lane.name, load) for lane, load in stats.lanes.items()],
        flow=flow_chart(found.within, found.points),
        delay=delay_chart(found.within, found.points),
        total=found.total,
        upcoming=upcoming_chart(upcoming),
        failing=_failing(found.types),
        busiest=_busiest(found.types),
        breakers=await breakers.list_open(context.store, tenant, now),
        limits=[use for use in limits if use.holds],
        any_limits=bool(limits),
        dead=dead.tasks,
        events=[shown(event) for event in events.events],
        nodes=living,
    )


async def _happened(
    context: Context, tenant: str, asked: ActivityQuestion
) -> tuple[Activity, tuple[Counts, float]]:
    now = context.clock.now()
    found = await activity.of_tenant(context.activity, tenant, asked, now)
    return found, await activity.recent(context.activity, tenant, now, _RECENT)


async def _ahead(context: Context, tenant: str) -> tuple[list[UpcomingHour], Sequence[LimiterUse]]:
    upcoming = await context.upcoming.read(tenant, partial(context.activity.upcoming, tenant))
    return upcoming, await limiters.list_with_keys(context.limiters, context.store, tenant)


def _figures(
    stats: TaskStats, recent: tuple[Counts, float], living: Sequence[NodeStatus] | None
) -> list[Figure]:
    counts, seconds = recent
    ready, running = stats.statuses[Status.READY], stats.statuses[Status.RUNNING]
    oldest = max((load.oldest_ready_seconds or 0.0 for load in stats.lanes.values()), default=0.0)
    slots = sum(node.slots for node in living or () if node.alive)
    busy = sum(node.running for node in living or () if node.alive)
    p50, p95, p99 = (delay(percentile(counts.delays, part)) for part in (0.5, 0.95, 0.99))
    ended = counts.succeeded + counts.failed
    dead, scheduled = stats.statuses[Status.DEAD_LETTERED], stats.statuses[Status.SCHEDULED]
    minutes = f"in {round(_RECENT.total_seconds() / 60)} minutes"
    return [
        Figure("Ready", "◌", "yellow", words.count(ready),
               f"oldest waits {words.span(oldest)}" if ready.count else "nothing waits",
               "/tasks?q=status:READY"),
        Figure("Running", "▶", "blue", words.count(running),
               f"{busy} of {slots} slots busy" if slots else "",
               "/tasks?q=status:RUNNING", busy / slots if slots else None),
        Figure("Starts", "⇥", "sky", words.rate(counts.started / seconds),
               f"{words.number(counts.started)} {minutes}", "#flow"),
        Figure("Failures", "↻", "orange", words.rate(counts.failed / seconds),
               f"{words.part(counts.failed, ended)} of executions" if ended else minutes,
               "#failing"),
        Figure("Start delay", "◷", "green", p95,
               f"p95; p50 {p50}, p99 {p99}" if counts.started
               else "nothing started", "#delay"),
        Figure("Dead letters", "✕", "red", words.count(dead),
               f"{words.number(counts.dead)} new {minutes}", "/dead-letters"),
        Figure("Scheduled", "◷", "purple", words.count(scheduled), "for later",
               "/tasks?q=status:SCHEDULED"),
    ]  # fmt: skip


def delay(seconds: float | None) -> str:
    """How late tasks start; nobody knows how much more than the last bound."""
    beyond = seconds is not None and seconds >= DELAY_BOUNDS[-1]
    return f"{'>' if beyond else ''}{words.span(seconds)}"


def _minor(stats: TaskStats) -> list[tuple[Status, CappedCount]]:
    """The other statuses; not those of which none was found before the counting stopped."""
    counts = ((status, stats.statuses[status]) for status in _MINOR)
    return [(status, found) for status, found in counts if found.count or not found.capped]


def _failing(types: Sequence[TypeActivity]) -> list[tuple[TypeActivity, str]]:
    """The types with most failures, and the part of their executions that failed."""
    failing = sorted(
        (each for each in types if each.task_type is not None and each.counts.failed),
        key=lambda each: (-each.counts.failed, each.task_type or ""),
    )
    return [
        (each, words.part(each.counts.failed, each.counts.failed + each.counts.succeeded))
        for each in failing[:_TYPES]
    ]


def _busiest(types: Sequence[TypeActivity]) -> list[tuple[TypeActivity, str]]:
    """The types that ran for longest in all, and how long one of their executions took."""
    busy = sorted(
        (each for each in types if each.task_type is not None and each.counts.started),
        key=lambda each: (-each.counts.seconds, each.task_type or ""),
    )

    def mean(counts: Counts) -> float | None:
        ended = counts.succeeded + counts.failed
        return counts.seconds / ended if ended else None

    return [(each, words.span(mean(each.counts))) for each in busy[:_TYPES]]


ROUTES = (show_overview,)
