"""The app of nodes without metrics, whose activity is added up as ever."""

from bench.handlers import app as app
from gnomon.observe.events import Event
from gnomon.observe.metrics.node import NodeMetrics


def _nothing(self: object, event: Event) -> None:
    """Hears an event, and forgets it."""


NodeMetrics.__call__ = _nothing  # type: ignore[method-assign]
