"""The span of a submission, from its request to its commit. None unless its trace is sampled."""

from typing import TYPE_CHECKING

from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.requests.origins import asks_not_to_be_traced, requested_origin
from gnomon.clock import chance
from gnomon.model.tasks.origin import Origin, origin_of
from gnomon.observe import span_names as names

if TYPE_CHECKING:
    from gnomon.observe.tracing import ActiveSpan


def produced(request: Request, task_type: str | None) -> tuple[Origin | None, "ActiveSpan | None"]:
    """The origin of what a request submits, and the span that it begins. `task_type`: None where
    a batch has several."""
    origin, context = requested_origin(request), context_of(request)
    tracing = context.tracing
    if tracing is None:
        return origin, None
    parent = None if origin is None else origin.trace
    if parent is None and not _is_chosen(request, context.settings.tracing.ratio):
        return origin, None
    span = tracing.begin_sending(parent, tenant_of(request), task_type)
    given = None if origin is None else origin.correlation_id
    span.set(names.CONVERSATION_ID, given)
    return origin_of(given, span.context), span


def _is_chosen(request: Request, ratio: float) -> bool:
    """Whether a request that belongs to no trace begins one."""
    return ratio > 0 and not asks_not_to_be_traced(request) and chance() < ratio
