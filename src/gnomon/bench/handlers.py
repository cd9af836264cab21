"""The app of the measured nodes."""

from gnomon import Gnomon
from gnomon.bench.functions import noop, stamp, wait

app = Gnomon()
app.task(noop)
app.task(stamp)
app.task(wait)
