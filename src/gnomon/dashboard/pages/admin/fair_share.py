"""The share of each tenant in what ran, over time, against its weight."""

from collections.abc import Callable

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.dashboard.addresses.time_range import RANGES_OF_ALL, range_in
from gnomon.dashboard.drawing.charts import MOST_SHARES, share_chart
from gnomon.dashboard.rendering import page
from gnomon.store.ports.insight.activity import ActivityPoint
from gnomon.usecases.tasks import activity
from gnomon.usecases.tasks.activity import ActivityOfAll

_MEASURES: dict[str, tuple[str, Callable[[ActivityPoint], float]]] = {
    "seconds": ("Run time", lambda point: point.counts.seconds),
    "started": ("Starts", lambda point: point.counts.started),
}


class ShareRow(msgspec.Struct, frozen=True):
    """A tenant over the whole time. Parts are between 0 and 1."""

    tenant_id: str | None  # None: all others together
    colour: int | None
    weight: float | None
    due: float | None  # what its weight gives it, beside the others that are shown
    of_seconds: float
    of_started: float
    seconds: float
    started: int
    failed: int


@PageRoute("GET", "/fair-share", role=Role.OPERATOR)
async def show_fair_share(request: Request) -> ASGIResponse:
    context, chosen = context_of(request), range_in(request, RANGES_OF_ALL)
    now = context.clock.now()
    measure = request.query_params.get("by", "")
    measure = measure if measure in _MEASURES else "seconds"
    found = await activity.of_all(context.activity, chosen.question(now), now)

    def weight(tenant_id: str) -> float | None:
        known = context.directory.knows(tenant_id)
        return context.directory.weight(tenant_id) if known else None

    return page(
        request,
        "fair_share.html",
        ranges=RANGES_OF_ALL,
        chosen=chosen,
        measure=measure,
        measures=[(name, label) for name, (label, _) in _MEASURES.items()],
        chart=share_chart(found, _MEASURES[measure][1]),
        rows=_rows(found, weight),
    )


def _rows(found: ActivityOfAll, weight_of: Callable[[str], float | None]) -> list[ShareRow]:
    weights = {
        each.tenant_id: weight_of(each.tenant_id)
        for each in found.tenants
        if each.tenant_id is not None
    }
    whole = sum(weight for weight in weights.values() if weight is not None)
    rows = []
    for place, each in enumerate(found.tenants):
        weight = None if each.tenant_id is None else weights[each.tenant_id]
        named = each.tenant_id is not None and place < MOST_SHARES
        rows.append(
            ShareRow(
                tenant_id=each.tenant_id,
                colour=place if named else MOST_SHARES,
                weight=weight,
                due=None if weight is None or not whole else weight / whole,
                of_seconds=_part(each.total.seconds, found.total.seconds),
                of_started=_part(each.total.started, found.total.started),
                seconds=each.total.seconds,
                started=each.total.started,
                failed=each.total.failed,
            )
        )
    return rows


def _part(count: float, whole: float) -> float:
    return count / whole if whole else 0.0


ROUTES = (show_fair_share,)
