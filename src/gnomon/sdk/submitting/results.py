"""The result of a handler, as the type that its function returns."""

from typing import Any, Never, NoReturn

from gnomon.sdk.errors import InvalidHandler, InvalidResult
from gnomon.sdk.values import UNREADABLE, decoder, unreadable

_NEVER_RETURN = (Never, NoReturn)


class Results:
    """Reads results."""

    __slots__ = ("_decode", "_handler")

    def __init__(self, handler: str, returns: Any) -> None:
        """Raises InvalidHandler where JSON cannot hold what is returned."""
        kind = Any if returns in _NEVER_RETURN else returns
        problem = unreadable(kind)
        if problem is not None:
            raise InvalidHandler(
                f"{handler}: its result is kept as JSON, and {problem}; return a type of JSON, a "
                "dataclass, a TypedDict or a msgspec.Struct"
            )
        self._handler = handler
        self._decode = decoder(kind).decode

    def decode(self, result: bytes | None) -> Any:
        """Raises InvalidResult."""
        try:
            return self._decode(b"null" if result is None else result)
        except UNREADABLE as error:
            raise InvalidResult(f"{self._handler}: its result cannot be read: {error}") from error
