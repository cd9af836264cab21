"""Calls of the API by commands."""

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
            "--api must be like http://127.0.0.1:8080; a key goes into GNOMON_API_KEY"
        )
    return given.rstrip("/").removesuffix("/api/v1")


@asynccontextmanager
async def connected(api: ApiAddress) -> AsyncIterator["DocumentClient"]:
    # Here and not above: httpx takes longer to import than `--help` may take.
    from gnomon.client.client import DocumentClient

    async with DocumentClient(api.url, key=api.key, retries=0) as client:
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


def for_each(
    api: ApiAddress, task_ids: list[str], act: Callable[["DocumentClient", str], Awaitable[str]]
) -> None:
    """Do one thing to several tasks, and print the result of each."""

    async def all_of_them(client: "DocumentClient") -> int:
        refused = 0
        for task_id in task_ids:
            try:
                output.echo(await act(client, task_id))
            except ApiProblem as problem:
                if problem.status == HTTPStatus.UNAUTHORIZED:
                    raise
                output.trouble(f"{task_id}: {problem}")
                refused += 1
        return refused

    if call(api, all_of_them):
        raise typer.Exit(1)
