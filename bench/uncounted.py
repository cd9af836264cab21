"""The app of nodes that count nothing: no metrics, and no activity.

What counting costs cannot be switched off in production, so it is taken out here.
"""

from bench.unmetered import _nothing
from bench.unmetered import app as app
from gnomon.observe.tally import ActivityTally

ActivityTally.__call__ = _nothing  # type: ignore[method-assign]
