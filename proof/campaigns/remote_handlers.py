"""The handlers of a campaign that remote workers run: those that need no database."""

from proof.campaigns import handlers

from gnomon import Gnomon

app = Gnomon()
for _handler in (handlers.function, handlers.thread, handlers.poison):
    app.task(_handler.function)
