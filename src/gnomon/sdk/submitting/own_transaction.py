"""Submits tasks in the transaction of the program, by the database's function gnomon.submit."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from gnomon.client.errors import InvalidField, ProblemDocument, problem_of
from gnomon.client.trace_headers import trace_headers
from gnomon.sdk.errors import InvalidOption
from gnomon.sdk.submitting.commit_hints import hint_after_commit
from gnomon.sdk.submitting.drivers import Driver, Statement, Statements, carried_out, driver_of

if TYPE_CHECKING:
    from gnomon.sdk.submitting.prepared import Prepared

_SCHEMA = "SELECT schema, digest FROM gnomon.payload_schema(CAST(:task_type AS text))"
_SUBMIT = """\
SELECT CAST(gnomon.submit(
    CAST(CAST(:body AS text) AS json), CAST(:checked AS text), CAST(:trace AS text)
) AS text)"""

# SQLSTATEs of gnomon.submit, as the statuses that the API answers with.
_STATUSES = {"GN101": 422, "GN102": 403, "GN103": 429, "GN104": 409, "GN105": 422, "GN106": 507}
_QUOTA = "urn:gnomon:problem:quota-exceeded"


async def submit(prepared: "Prepared[Any]", connection: Any) -> UUID:
    """The id of the task, which is there once the transaction of `connection` is committed."""
    driver = _checked(connection, is_async=True)
    with _told():
        found: UUID = await carried_out(connection, _submission(prepared), in_transaction=True)
    hint_after_commit(driver.package, connection, found)
    return found


def submit_sync(prepared: "Prepared[Any]", connection: Any) -> UUID:
    """The same by a connection that blocks."""
    driver = _checked(connection, is_async=False)
    with _told():
        found: UUID = carried_out(connection, _submission(prepared), in_transaction=True)
    hint_after_commit(driver.package, connection, found)
    return found


def _checked(connection: Any, *, is_async: bool) -> Driver:
    try:
        driver = driver_of(connection)
    except TypeError as error:
        raise InvalidOption(f"connection=: {error}") from None
    if driver.is_async != is_async:
        kind, way = ("blocks", "submit_sync") if is_async else ("is of asyncio", "submit")
        raise InvalidOption(f"connection=: this one {kind}; use {way}(...) with it")
    return driver


def _submission(prepared: "Prepared[Any]") -> Statements:
    spec = prepared.due_spec()
    row = yield Statement(_SCHEMA, {"task_type": spec.task_type})
    checked = None
    if row is not None:
        _check_payload(prepared, row[0])
        checked = row[1]
    body = msgspec.json.encode(spec).decode()
    trace = trace_headers().get("traceparent")
    row = yield Statement(_SUBMIT, {"body": body, "checked": checked, "trace": trace})
    assert row is not None, "a function gives a row"
    return UUID(row[0])


def _check_payload(prepared: "Prepared[Any]", schema: str) -> None:
    """Raises InvalidRequest where the payload is not as the schema of its type wants it.

    The arguments were read by the handler's own types when they were given. A schema that was made
    of these says nothing else; any other is checked, for which the server must be installed."""
    if msgspec.json.decode(schema) == msgspec.json.decode(
        msgspec.json.encode(prepared.handler.arguments.schema())
    ):
        return
    try:
        schemas: Any = import_module("gnomon.payload_schemas.schema")
    except ModuleNotFoundError:
        raise InvalidOption(
            f"{prepared.handler.name}: its task type has a payload schema that is not that of this "
            "handler, and what checks it is not installed: pip install 'gnomon[server]', or submit "
            "it without connection="
        ) from None
    mistakes = schemas.PayloadSchema(schema.encode()).mistakes(bytes(prepared.spec.payload))
    if mistakes:
        fields = tuple(InvalidField(each.detail, f"/payload{each.pointer}") for each in mistakes)
        title = "the payload is not as the schema of its task type wants it"
        raise problem_of(422, ProblemDocument(title=title, errors=fields))


@contextmanager
def _told() -> Iterator[None]:
    """Tells a refusal of gnomon.submit as the API would tell it."""
    try:
        yield
    except Exception as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        status, text = refusal
        pointer, _, detail = text.partition(": ") if text.startswith("/") else ("", "", text)
        kind = _QUOTA if status == 429 else ""
        fields = (InvalidField(detail, pointer),) if pointer else ()
        raise problem_of(status, ProblemDocument(type=kind, title=detail, errors=fields)) from error


def _refusal(error: BaseException | None) -> tuple[int, str] | None:
    """The status and the message, where PostgreSQL has refused the task; the errors of frameworks
    wrap those of drivers."""
    seen = 0
    while error is not None and seen < 5:
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state in _STATUSES:
            return _STATUSES[state], _message(error)
        error = getattr(error, "orig", None) or error.__cause__
        seen += 1
    return None


def _message(error: BaseException) -> str:
    """Without the hint, which each driver adds in its own way."""
    diagnosis = getattr(error, "diag", None)
    primary = getattr(diagnosis, "message_primary", None) or getattr(error, "message", None)
    if isinstance(primary, str):
        return primary
    return str(error).partition("\n")[0]
