"""The app of the measured nodes."""

from bench.functions import noop, stamp, wait
from gnomon import Gnomon

app = Gnomon()
app.task(noop)
app.task(stamp)
app.task(wait)
