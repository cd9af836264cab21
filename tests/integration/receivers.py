"""Programs that receive webhooks, one for each framework: `python -m tests.integration.receivers
KIND DSN` prints its address, and serves until it is killed."""

import logging
import sys
import threading
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.simple_server import make_server as make_wsgi_server

import msgspec
import psycopg

from gnomon import receive
from gnomon.receive import Received, Webhooks
from gnomon.sdk.signals import Reject, Retry, Snooze

WRITE = "INSERT INTO effect (fence, shop, what) VALUES ({}, {}, {})"


class Order(msgspec.Struct):
    number: int
    wants: str = "nothing"


def obey(received: Received[Order]) -> None:
    """End the execution the way that the payload asks for."""
    first = received.attempt == 1
    match received.payload.wants:
        case "a snooze" if first:
            raise Snooze(0.1)
        case "a retry" if first:
            raise Retry("busy", after=0.1)
        case "an error" if first:
            raise RuntimeError("the receiver is broken")
        case "a rejection":
            raise Reject("no such order")


def told(received: Received[Order]) -> dict[str, Any]:
    return {"number": received.payload.number, "type": received.task_type}


def fastapi_app(dsn: str) -> Any:
    from typing import Annotated

    import asyncpg
    from fastapi import Depends, FastAPI

    from gnomon.receive.fastapi import endpoint

    app = FastAPI()
    webhooks = Webhooks()

    def shop_name(shop: str) -> str:
        return shop.upper()

    @app.post("/orders/{shop}")
    @endpoint(webhooks)
    async def order(received: Received[Order], name: Annotated[str, Depends(shop_name)]) -> object:
        connection = await asyncpg.connect(dsn)
        try:
            await receive.admit(connection, received)
            async with connection.transaction():
                await receive.once(connection, received)
                await connection.execute(
                    WRITE.format("$1", "$2", "$3"), received.fence, name, received.payload.wants
                )
                obey(received)
        finally:
            await connection.close()
        return told(received)

    @app.post("/blocking/{shop}")
    @endpoint(webhooks)
    def blocking(received: Received[Order]) -> object:
        assert threading.current_thread() is not threading.main_thread()
        obey(received)
        return told(received)

    return app


def flask_app(dsn: str) -> Any:
    from flask import Flask

    from gnomon.receive.flask import endpoint

    app = Flask("receiver")

    @app.post("/orders/<shop>")
    @endpoint(Webhooks())
    def order(shop: str, received: Received[Order]) -> object:
        with psycopg.connect(dsn) as connection:
            receive.admit(connection, received)
            connection.commit()
            receive.once(connection, received)
            connection.execute(
                WRITE.format("%s", "%s", "%s"),
                [received.fence, shop.upper(), received.payload.wants],
            )
            obey(received)
        return told(received)

    return app


def django_setup(dsn: str) -> None:
    """A site whose requests are transactions, as many are."""
    import django
    from django.conf import settings
    from tests.integration.receiving import django_database

    settings.configure(
        DATABASES={"default": {**django_database(dsn), "ATOMIC_REQUESTS": True}},
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        USE_TZ=True,
        MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"],
        LOGGING_CONFIG=None,
    )
    django.setup()


def django_urls() -> list[Any]:
    from asgiref.sync import sync_to_async
    from django.db import connection, transaction
    from django.urls import path

    from gnomon.receive.django import endpoint

    def write(shop: str, received: Received[Order]) -> None:
        receive.once(connection, received)
        with connection.cursor() as cursor:
            cursor.execute(
                WRITE.format("%s", "%s", "%s"),
                [received.fence, shop.upper(), received.payload.wants],
            )
        obey(received)

    @endpoint(Webhooks())
    def order(shop: str, received: Received[Order]) -> object:
        write(shop, received)
        return told(received)

    @endpoint(Webhooks())
    async def async_order(shop: str, received: Received[Order]) -> object:
        def within() -> None:
            with transaction.atomic():
                write(shop, received)

        await sync_to_async(within)()
        return told(received)

    return [
        path("orders/<str:shop>", order),
        path("async/<str:shop>", transaction.non_atomic_requests(async_order)),
    ]


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None: ...


def _serve_asgi(app: Any) -> None:
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    announced = server.startup

    async def startup(*args: Any, **kwargs: Any) -> None:
        await announced(*args, **kwargs)
        _announce(server.servers[0].sockets[0].getsockname()[1])

    server.startup = startup  # type: ignore[method-assign]
    server.run()


def _serve_wsgi(app: Any) -> None:
    server = make_wsgi_server("127.0.0.1", 0, app, _Threads, _Quiet)
    _announce(server.server_port)
    server.serve_forever()


def _serve_flask(dsn: str) -> None:
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, flask_app(dsn), threaded=True)
    _announce(server.server_port)
    server.serve_forever()


def _serve_django(dsn: str) -> None:
    from django.core.wsgi import get_wsgi_application

    django_setup(dsn)
    _serve_wsgi(get_wsgi_application())


def _serve_django_asgi(dsn: str) -> None:
    from django.core.asgi import get_asgi_application

    django_setup(dsn)
    _serve_asgi(get_asgi_application())


def _announce(port: int) -> None:
    print(f"http://127.0.0.1:{port}", flush=True)


KINDS: dict[str, Callable[[str], None]] = {
    "fastapi": lambda dsn: _serve_asgi(fastapi_app(dsn)),
    "flask": _serve_flask,
    "django": _serve_django,
    "django-asgi": _serve_django_asgi,
}


def __getattr__(name: str) -> Any:
    if name == "urlpatterns":  # Django asks for them once it is set up
        return django_urls()
    raise AttributeError(name)


if __name__ == "__main__":
    from gnomon.node.run.parent import die_with_parent

    die_with_parent(int(sys.argv[3]))
    sys.modules["tests.integration.receivers"] = sys.modules["__main__"]
    KINDS[sys.argv[1]](sys.argv[2])
