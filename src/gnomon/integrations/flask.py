"""Flask: an app whose handlers run within the context of the Flask application."""

from collections.abc import Awaitable, Callable
from typing import Any

from flask import Flask

from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.handler import Blocking
from gnomon.sdk.executing.context import TaskContext


class FlaskGnomon(Gnomon):
    """A `Gnomon` for one Flask application. The configuration may name the API to submit to:
    GNOMON_URL and GNOMON_API_KEY."""

    def __init__(self, flask: Flask | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._flask: Flask | None = None
        if flask is not None:
            self.init_app(flask)

    def init_app(self, flask: Flask) -> None:
        """Belong to this application: it has this one in `extensions["gnomon"]`."""
        self._flask = flask
        self._url = flask.config.get("GNOMON_URL", self._url)
        self._key = flask.config.get("GNOMON_API_KEY", self._key)
        flask.extensions["gnomon"] = self

    async def execute(
        self, name: str, payload: bytes | None, ctx: TaskContext, blocking: Blocking
    ) -> object:
        """Run a handler, with `current_app` and what hangs on it; see `Gnomon.execute`."""
        flask = self._flask
        if flask is None:
            raise RuntimeError("FlaskGnomon belongs to no application: call init_app(flask)")

        def within(work: Callable[[], object]) -> Awaitable[object]:
            def in_context() -> object:
                with flask.app_context():
                    return work()

            return blocking(in_context)

        with flask.app_context():
            return await super().execute(name, payload, ctx, within)
