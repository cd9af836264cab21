"""Calls of the API by commands."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import typer

from gnomon import loop
from gnomon.cli.shared import output
from gnomon.client.errors import ApiProblem
from gnomon.settings import Settings

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient

Json = dict[str, Any]

_T = TypeVar("_T")
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to connect instead


class ApiAddress(msgspec.Struct, frozen=True):
    """The address of the API, and the key to send."""

    url: str
    key: str | None = None

    def __str__(self) -> str:
        return self.url


def api_url(settings: Settings, given: str | None) -> ApiAddress:
    """The address that `--api` gives, else the one in the settings."""
    return ApiAddress(_url(settings, given), settings.api.key)


def _url(settings: Settings, given: str | None) -> str:
    if given is None:
        host = _EVERYWHERE.get(settings.api.host, settings.api.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{settings.api.port}"
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise typer.BadParameter(
            "--api (or GNOMON_URL) must be like http://127.0.0.1:8080; a key goes into "
            "GNOMON_API_KEY"
        )
    return given.rstrip("/").removesuffix("/api/v1")


def document_client() -> type["DocumentClient"]:
    """The client's class. It is imported without the command line of httpx, which would bring a
    second click and half of rich: most of the time that a command needs to start."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from gnomon.client.client import DocumentClient

    if sys.modules["httpx._main"] is None:
        del sys.modules["httpx._main"]
    return DocumentClient


@asynccontextmanager
async def connected(api: ApiAddress) -> AsyncIterator["DocumentClient"]:
    # Here and not above: httpx takes longer to import than `--help` may take.
    client_type = document_client()

    async with client_type(api.url, key=api.key, retries=0) as client:
        yield client


def call(api: ApiAddress, use: Callable[["DocumentClient"], Coroutine[Any, Any, _T]]) -> _T:
    """Run `use` with a client of the API."""

    async def within() -> _T:
        async with connected(api) as client:
            return await use(client)

    with _checked(api):
        return loop.run(within())


@contextmanager
def _checked(api: ApiAddress) -> Iterator[None]:
    """CommandFailed where an answer lacks a member: it is not of this API."""
    try:
        yield
    except KeyError as missing:
        raise output.CommandFailed(
            f"the answer of {api} has no {missing}: it is not Gnomon's API, or of another version"
        ) from missing


def tell(
    api: ApiAddress,
    ask: Callable[["DocumentClient"], Coroutine[Any, Any, _T]],
    show: Callable[[_T], None],
    *,
    as_json: bool,
) -> None:
    """Ask for one thing, and print it as JSON or by `show`."""
    answer = call(api, ask)
    if as_json:
        output.document(answer)
    else:
        with _checked(api):
            show(answer)


Act = Callable[["DocumentClient", str], Awaitable[tuple[str, Any]]]
Find = Callable[["DocumentClient", str], Awaitable[str]]


def for_each(
    api: ApiAddress, given: list[str], act: Act, *, member: str, find: Find, as_json: bool
) -> None:
    """Do one thing to each of several, and print what `act` tells of it; or, as JSON, what it
    gives of all of them under `member`. `find` makes whole ids of what was given."""

    async def all_of_them(client: "DocumentClient") -> tuple[list[Any], int]:
        done, refused = [], 0
        for each in given:
            try:
                told, document = await act(client, await find(client, each))
            except (ApiProblem, output.CommandFailed, typer.BadParameter) as problem:
                if getattr(problem, "status", None) == HTTPStatus.UNAUTHORIZED:
                    raise
                output.trouble(f"{each}: {problem}", **members_of(problem), given=each)
                refused += 1
                continue
            done.append(document)
            if not as_json:
                output.echo(told)
        return done, refused

    done, refused = call(api, all_of_them)
    if as_json and done:
        output.document({member: done})
    if refused:
        raise typer.Exit(1)


def members_of(error: Exception) -> Json:
    """What is told of an error beside its message, as JSON."""
    if not isinstance(error, ApiProblem):
        return {}
    found: Json = {"status": error.status, "type": error.type}
    if error.errors:
        found["errors"] = [{"pointer": e.pointer, "detail": e.detail} for e in error.errors]
    return found


async def as_given(_client: "DocumentClient", given: str) -> str:
    """The `find` of what has names."""
    return given
