"""The payload of a handler: its arguments as a JSON object, keyed by the parameters' names.

A handler whose only data parameter is called `payload` gets the whole payload, whatever it is.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from gnomon.sdk.declaring.parameters import REQUIRED, Parameter
from gnomon.sdk.declaring.payload_schema import payload_schema
from gnomon.sdk.errors import InvalidArguments, InvalidHandler
from gnomon.sdk.signals import Reject
from gnomon.sdk.values import UNREADABLE, decoder, encoded, has_sets, unreadable

WHOLE = "payload"

_MISSING = re.compile(r"Object missing required field `(.*)`")

# Defaults that can be shared between calls; others come from a factory, as msgspec asks.
_SHAREABLE = (type(None), bool, int, float, str, bytes)


class Arguments:
    """The data parameters of a handler, ready to be checked, written and read."""

    __slots__ = (
        "_has_sets",
        "_read",
        "_signature",
        "_type",
        "_whole",
        "decode",
        "handler",
        "names",
    )

    def __init__(self, handler: str, parameters: Sequence[Parameter]) -> None:
        """Raises InvalidHandler where a type cannot be read from JSON."""
        for parameter in parameters:
            _check(handler, parameter)
        self.handler = handler
        self.names = tuple(parameter.name for parameter in parameters)
        self._whole = self.names == (WHOLE,)
        # The same arguments under one key are the same task, whichever process submits them.
        self._has_sets = any(has_sets(parameter.annotation) for parameter in parameters)
        self._signature = inspect.Signature([_in_signature(each) for each in parameters])
        self._type = parameters[0].annotation if self._whole else _struct(parameters)
        self._read = decoder(self._type).decode
        # The arguments in the order of the parameters. Raises Reject, which names the argument: no
        # retry can help.
        self.decode = self._reader(parameters[0].default if self._whole else REQUIRED)

    # When it is submitted

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """The payload. Raises InvalidArguments, which names the argument."""
        given = self._bound(args, kwargs)
        return self._checked(self._document(given), given)

    def document(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The payload before it is written as JSON; the values in it are not checked. Raises
        InvalidArguments where the signature does not take them."""
        return self._document(self._bound(args, kwargs))

    @property
    def defaults(self) -> dict[str, Any]:
        """Of the parameters that have one; none, where the payload is one value."""
        return {
            name: parameter.default
            for name, parameter in self._signature.parameters.items()
            if parameter.default is not inspect.Parameter.empty and not self._whole
        }

    def with_defaults(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """As `encode`, with the defaults of parameters that are not given."""
        given = self._bound(args, kwargs)
        every = {
            name: given.get(name, parameter.default)
            for name, parameter in self._signature.parameters.items()
        }
        return self._checked(self._document(every), every)

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidArguments(f"{self.handler}: {self._unbound(error, kwargs)}") from None

    def _document(self, given: Mapping[str, Any]) -> Any:
        if not self._whole:
            return given
        return given[WHOLE] if WHOLE in given else self._signature.parameters[WHOLE].default

    def _unbound(self, error: TypeError, given: Mapping[str, Any]) -> str:
        """What does not fit the signature, with the names that nothing is called: where one of them
        is mistyped, Python only tells that the right one is missing."""
        unknown = [name for name in given if name not in self.names]
        if not unknown:
            return str(error)
        told = f"there is no argument {', '.join(unknown)}"
        likely = get_close_matches(unknown[0], self.names, 1)
        if likely:
            return f"{told}; did you mean {likely[0]}?"
        return f"{told} (there are: {', '.join(self.names) or 'none'})"

    def _checked(self, document: Any, given: Mapping[str, Any]) -> bytes:
        try:
            payload = encoded(document, ordered=self._has_sets)
        except Exception as error:
            raise self._unwritable(error, given) from error
        try:
            self._read(payload)
        except UNREADABLE as error:
            raise InvalidArguments(f"{self.handler}: {self._told(error)}") from None
        return payload

    def _unwritable(self, error: Exception, given: Mapping[str, Any]) -> InvalidArguments:
        for name, value in given.items():
            try:
                encoded(value)
            except Exception as found:  # noqa: BLE001 - whatever the classes in it raise
                return InvalidArguments(f"{self.handler}: argument {name}: {found}")
        return InvalidArguments(f"{self.handler}: {error}")

    # When the task type is registered

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the payload."""
        optional = not any(each.default is REQUIRED for each in self._signature.parameters.values())
        return payload_schema(
            self.handler, self._type, parameters=not self._whole, optional=optional
        )

    # When it is run

    def _reader(self, default: Any) -> Callable[[bytes | None], tuple[Any, ...]]:
        """Made once, as it is called for every execution: what can be known now is known there."""
        read, astuple, is_whole = self._read, msgspec.structs.astuple, self._whole

        def decode(payload: bytes | None) -> tuple[Any, ...]:
            try:
                if not is_whole:
                    return astuple(read(b"{}" if payload is None else payload))
                if payload is None and default is not REQUIRED:
                    return (default,)
                return (read(b"null" if payload is None else payload),)
            except UNREADABLE as error:
                raise Reject(f"{self.handler}: {self._told(error)}") from None

        return decode if self.names else _nothing

    def _told(self, error: Exception) -> str:
        """The error in the words of arguments."""
        detail, _, path = str(error).partition(" - at `$")
        place = path.rstrip("`").lstrip(".")
        missing = _MISSING.fullmatch(detail)
        if missing and not place and not self._whole:
            return f"argument {missing[1]} is missing"
        if self._whole:
            place = f"{WHOLE}{path.rstrip('`')}"
        return f"argument {place}: {detail}" if place else f"the payload: {detail}"


def _nothing(_payload: bytes | None) -> tuple[Any, ...]:
    return ()


def _check(handler: str, parameter: Parameter) -> None:
    problem = unreadable(parameter.annotation)
    if problem is not None:
        raise InvalidHandler(
            f"{handler}: parameter {parameter.name}: {problem}; use a type of JSON, a dataclass, "
            "a TypedDict or a msgspec.Struct, or Depends for what is not in the payload"
        )


def _in_signature(parameter: Parameter) -> inspect.Parameter:
    kind = (
        inspect.Parameter.KEYWORD_ONLY
        if parameter.by_keyword
        else inspect.Parameter.POSITIONAL_OR_KEYWORD
    )
    return inspect.Parameter(parameter.name, kind, default=parameter.default)


def _struct(parameters: Sequence[Parameter]) -> type[msgspec.Struct]:
    """A type with a field for each parameter. The fields have names of their own, as a parameter
    may be called what no field can be."""
    fields: list[Any] = []
    for number, parameter in enumerate(parameters):
        name = f"field_{number}"
        if parameter.is_required:
            fields.append((name, parameter.annotation))
        else:
            fields.append((name, parameter.annotation, _default(parameter.default)))
    names = {f"field_{number}": parameter.name for number, parameter in enumerate(parameters)}
    return msgspec.defstruct("Arguments", fields, rename=names, kw_only=True, gc=False)


def _default(value: Any) -> Any:
    if type(value) in _SHAREABLE:
        return value
    return msgspec.field(default_factory=lambda: value)
