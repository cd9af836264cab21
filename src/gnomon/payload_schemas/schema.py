"""JSON Schemas for payloads: validates and compiles a schema, and checks payloads against it.

Nothing outside of a schema is ever read, patterns take time in proportion to the text (so they have
no look-around and no back-references), and formats are checked.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from gnomon.model.errors import InvalidSchema, Mistake
from gnomon.payload_schemas.extent import Extent, at_most, extent_of, nests_deeper
from gnomon.payload_schemas.survey import Cost, survey

MOST_BYTES = 64 * 1024
MOST_SCHEMA_LEVELS = 32
MOST_MISTAKES = 10
# Steps of one check, of about 20 ns each. Nothing else of the process runs meanwhile.
MOST_WORK = 1_000_000
_LITTLE = 20_000  # not worth a closer look
# To say what is wrong takes a thousand times as long as to know that something is, and all mistakes
# are collected before the first is shown. So they are told where that is little; beyond it, the
# first alone, unless its own alternatives are too many.
_LARGE = 8 * 1024
_MOST_TOLD = 4_000
_MOST_TOLD_ON_A_PATH = 1_000
_MOST_CHARACTERS = 300

_PATTERNS = jsonschema_rs.RegexOptions(size_limit=256 * 1024, dfa_size_limit=256 * 1024)
_DRAFTS = frozenset(
    (
        "",  # none: the newest
        "http://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    )
)


class PayloadSchema:
    """A schema, ready to check payloads."""

    def __init__(self, text: bytes) -> None:
        """Raises InvalidSchema, with the place in the schema."""
        schema = _read(text)
        self._survey = survey(schema)
        self.most_levels = self._survey.most_levels
        self._validator = _validator(schema)

    def mistakes(self, payload: bytes | None) -> list[Mistake]:
        """Mistakes of a payload with their places; not all, where there are many."""
        text = b"null" if payload is None else payload
        if nests_deeper(text, self.most_levels):
            detail = (
                f"is nested deeper than {self.most_levels} levels, "
                "the most that the schema of this task type can be checked for"
            )
            return [Mistake("", detail)]
        work = self._work(at_most(text))
        if work > MOST_WORK and (work := self._work(self._extent(text))) > MOST_WORK:
            detail = (
                f"may take {work} steps to check against the schema of its task type; at most "
                f"{MOST_WORK} are taken. Send less, make the schema simpler, or give a maxLength "
                "to what has a pattern"
            )
            return [Mistake("", detail)]
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return [Mistake("", f"cannot be checked against the schema of its task type: {error}")]
        return [] if self._validator.is_valid(value) else self._told(value, text)

    def work(self, payload: bytes | None) -> int:
        """An upper bound of the steps to check a payload that is not nested too deeply."""
        text = payload or b""
        first = self._work(at_most(text))
        return first if first <= _LITTLE else self._work(self._extent(text))

    def _work(self, extent: Extent) -> int:
        return extent.work(self._cost(extent))

    def _cost(self, extent: Extent) -> Cost:
        return self._survey.costs[min(extent.levels, self.most_levels)]

    def _extent(self, text: bytes) -> Extent:
        return extent_of(text, self._survey.longest_text)

    def _told(self, value: Any, text: bytes) -> list[Mistake]:
        """The mistakes of an invalid value."""
        extent = self._extent(text)
        cost = self._cost(extent)
        # A text that is too long is looked at all the same.
        if len(text) * cost.by_byte <= MOST_WORK:
            if len(text) <= _LARGE and extent.values * cost.by_value <= _MOST_TOLD:
                errors = self._validator.iter_errors(value)
                return [_mistake(error) for error in islice(errors, MOST_MISTAKES)]
            if cost.by_value <= _MOST_TOLD_ON_A_PATH:
                return [_first(self._validator, value)]
        return [
            Mistake(
                "",
                "does not match the schema of its task type, which has too many alternatives",
            )
        ]


def _read(text: bytes) -> Any:
    if len(text) > MOST_BYTES:
        raise InvalidSchema(f"is {len(text)} bytes; at most {MOST_BYTES} are kept")
    if nests_deeper(text, MOST_SCHEMA_LEVELS):
        raise InvalidSchema(f"is nested deeper than {MOST_SCHEMA_LEVELS} levels; use $defs")
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSchema(f"cannot be read: {error}") from error
    if not isinstance(schema, dict | bool):
        raise InvalidSchema("must be an object, or true or false")
    if isinstance(schema, dict) and str(schema.get("$schema", "")).rstrip("#") not in _DRAFTS:
        raise InvalidSchema("must be that of draft 4, 6, 7, 2019-09 or 2020-12", "/$schema")
    return schema


def _validator(schema: Any) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(
            schema,
            validate_formats=True,
            ignore_unknown_formats=False,
            retriever=_refuse,
            mask="the value",  # payloads hold secrets, and messages end up in logs
            pattern_options=_PATTERNS,
        )
    except jsonschema_rs.ValidationError as error:
        raise InvalidSchema(_schema_detail(error), _pointer(error.instance_path)) from error
    except ValueError as error:
        raise InvalidSchema(_short(str(error))) from error


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is outside of the schema")


def _schema_detail(error: jsonschema_rs.ValidationError) -> str:
    keyword = error.instance_path[-1] if error.instance_path else ""
    if keyword == "type":
        return "must be array, boolean, integer, null, number, object or string, or a list of these"
    if keyword == "format":
        return "is not a format that can be checked; leave it out, or use a pattern"
    if keyword == "pattern" or "patternProperties" in error.schema_path[-2:]:
        return (
            "is not a pattern that can be used: it must be a regular expression without "
            "look-around and back-references, and not too large"
        )
    return _short(error.message)


def _first(validator: jsonschema_rs.Validator, value: Any) -> Mistake:
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return _mistake(error)
    raise AssertionError("it was found not to be valid")


def _mistake(error: jsonschema_rs.ValidationError) -> Mistake:
    return Mistake(
        _pointer(error.instance_path),
        f"{_short(error.message)} (says the schema at {_pointer(error.schema_path) or '/'})",
    )


def _pointer(path: Sequence[str | int]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
