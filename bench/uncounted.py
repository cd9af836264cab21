"""The app of nodes that count nothing: no metrics, and no activity.

What counting costs cannot be switched off in production, so it is taken out here.
"""

from bench.handlers import app as app
from gnomon.observe.events import Event
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.observe.tally import ActivityTally


def _nothing(self: object, event: Event) -> None:
    """Hears an event, and forgets it."""


NodeMetrics.__call__ = _nothing  # type: ignore[method-assign]
ActivityTally.__call__ = _nothing  # type: ignore[method-assign]
