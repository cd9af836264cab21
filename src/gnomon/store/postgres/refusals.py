"""The failures of PostgreSQL and of its driver, each as one of three errors of ours.

By SQLSTATE, so that no failure is left out: `StoreUnavailable` says not now (`StoreExhausted`: for
it has more to do than it can), `Unstorable` says not
this value, and whatever is in neither list is a `StatementRefused`.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from gnomon.model.errors import (
    StatementRefused,
    StoreError,
    StoreExhausted,
    StoreUnavailable,
    Unstorable,
)

# Whatever the driver raises: what the server answered, and what the driver found by itself.
DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.exceptions.InternalClientError,
    TimeoutError,
    OSError,
)

_NOT_NOW = (
    "08",  # the connection
    "40",  # a deadlock, or somebody else was first
    "55006",  # somebody else uses it
    "55P03",  # somebody else has locked it
    "57",  # cancelled or timed out; the server is going, or coming
    "58",  # a disk
    "25006",  # a standby, in the middle of a failover
)
_EXHAUSTED = (
    "53",  # memory, disk or connections are used up
    "57014",  # a statement took too long
)
_NOT_THIS_VALUE = (
    "22",  # a character, number or JSON that the type does not know
    "54",  # too large for an index, a row or a statement
    "23514",  # an id or a fire that has no partition
)


@contextmanager
def translated() -> Iterator[None]:
    """Raise what the driver raises as a `StoreError`."""
    try:
        yield
    except (ssl.SSLError, asyncpg.exceptions.ClientConfigurationError) as error:
        # Both are ValueErrors, too: a certificate that is not trusted, or cannot be found.
        raise of_driver(error) from error
    except ValueError as error:
        # The driver refuses a value before it is sent: text that is no Unicode, say.
        raise Unstorable(f"PostgreSQL cannot hold this: {error}") from error
    except OverflowError as error:
        # Python has no year before 1 or after 9999.
        raise StatementRefused(f"a value that was read is out of range: {error}") from error
    except DRIVER_ERRORS as error:
        raise of_driver(error) from error


def of_driver(error: Exception) -> StoreError:
    """What an error of the driver means."""
    sqlstate = getattr(error, "sqlstate", None)
    if sqlstate is None:
        # The driver raises these by itself, without an answer.
        if isinstance(error, asyncpg.PostgresError) and not isinstance(
            error, asyncpg.PostgresConnectionError
        ):
            return StatementRefused(f"PostgreSQL refused the statement: {error}")
        # A time-out of our own, for a connection or for an answer, has no number.
        in_vain = isinstance(error, TimeoutError) and error.errno is None
        kind = StoreExhausted if in_vain else StoreUnavailable
        return kind(f"PostgreSQL is unavailable: {str(error) or type(error).__name__}")
    detail = f"{error} (SQLSTATE {sqlstate})"
    if sqlstate.startswith(_EXHAUSTED):
        return StoreExhausted(f"PostgreSQL is unavailable: {detail}", sqlstate)
    if sqlstate.startswith(_NOT_NOW):
        return StoreUnavailable(f"PostgreSQL is unavailable: {detail}", sqlstate)
    if sqlstate.startswith(_NOT_THIS_VALUE):
        return Unstorable(f"PostgreSQL cannot hold this: {detail}", sqlstate)
    return StatementRefused(f"PostgreSQL refused the statement: {detail}", sqlstate)
