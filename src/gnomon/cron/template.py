"""Payload templates: the placeholders in a job's payload, filled in for every run.

A blank stands inside a JSON string, at any depth, in a value or in a key:

    {{run_id}}, {{job_name}}                    as they are
    {{fire_time}}                               2026-03-29T07:00:00Z
    {{fire_time | Europe/Berlin}}               2026-03-29T09:00:00+02:00
    {{fire_time | %Y-%m-%d}}                    a format, in the job's zone
    {{fire_time | Europe/Berlin | %d.%m.%Y}}    a format, in another zone
    {{fire_time | unix}}, {{... | unix_ms}}     whole (milli)seconds since 1970, rounded down

`scheduled_for` and `previous_fire_time` are written as `fire_time` is; `previous_fire_time` is
empty where there was none. What fills a blank is part of its string: `"{{fire_time | unix}}"`
becomes `"1774767600"`. Spaces around the parts of a blank mean nothing.

A literal `{{` is written `{{{{`. A run of braces is read from the left, four at a time: of what
is left over, two open a blank, and an odd one is itself (`{{{run_id}}}` is the id in braces).
`}}` outside a blank is itself.

The directives of a format, in English and the same on every system:

    %Y year, four digits    %y its last two      %m month 01-12      %d day 01-31
    %j day of year 001-366  %H hour 00-23        %I hour 01-12       %p AM or PM
    %M minute 00-59         %S second 00-59      %f microseconds, six digits
    %b %B month (Jan, January)                   %a %A weekday (Mon, Monday)
    %u weekday 1-7 from Monday                   %G %V ISO year and week 01-53
    %z offset (+0200)       %Z zone's abbreviation (CEST; +03 where it has none)
    %% a percent sign

Everything is checked when the template is made, so that filling it in cannot fail.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from gnomon.cron.zones import zone
from gnomon.model.errors import InvalidSchedule
from gnomon.model.targets.blanks import (
    Blank,
    in_quotes,
    may_have_blanks,
    pieces,
    shortened,
    strings,
)

MOST_PLACEHOLDERS = 100
MOST_FORMAT_CHARACTERS = 200  # a directive may write more than it takes: this bounds the result

_ROOT = "/payload_template"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENTS = ("fire_time", "scheduled_for", "previous_fire_time")
_NAMES = ("job_name", "run_id")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

# Not strftime: its names follow the locale, and its years below 1000 the C library.
_DIRECTIVES: dict[str, Callable[[datetime], str]] = {
    "Y": lambda local: f"{local.year:04}",
    "y": lambda local: f"{local.year % 100:02}",
    "m": lambda local: f"{local.month:02}",
    "d": lambda local: f"{local.day:02}",
    "j": lambda local: f"{local.timetuple().tm_yday:03}",
    "H": lambda local: f"{local.hour:02}",
    "I": lambda local: f"{local.hour % 12 or 12:02}",
    "p": lambda local: "AM" if local.hour < 12 else "PM",
    "M": lambda local: f"{local.minute:02}",
    "S": lambda local: f"{local.second:02}",
    "f": lambda local: f"{local.microsecond:06}",
    "b": lambda local: _MONTHS[local.month - 1][:3],
    "B": lambda local: _MONTHS[local.month - 1],
    "a": lambda local: _WEEKDAYS[local.weekday()][:3],
    "A": lambda local: _WEEKDAYS[local.weekday()],
    "u": lambda local: f"{local.isoweekday()}",
    "G": lambda local: f"{local.isocalendar().year:04}",
    "V": lambda local: f"{local.isocalendar().week:02}",
    "z": lambda local: local.strftime("%z"),
    "Z": lambda local: local.tzname() or "",
}

_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)


class Values(msgspec.Struct, frozen=True):
    """The values of a run's placeholders; every moment has a zone."""

    fire_time: datetime
    scheduled_for: datetime
    previous_fire_time: datetime | None
    run_id: str
    job_name: str


_Blank = Callable[[Values], str]


class Template:
    """A payload, checked and ready to be filled in."""

    __slots__ = ("_constant", "_parts")

    def __init__(self, parts: tuple[bytes | _Blank, ...]) -> None:
        self._parts = parts
        fixed = [part for part in parts if isinstance(part, bytes)]
        self._constant = b"".join(fixed) if len(fixed) == len(parts) else None

    @property
    def is_constant(self) -> bool:
        """Whether every run gets the same payload."""
        return self._constant is not None

    def render(self, values: Values) -> bytes:
        """The payload of one run, as JSON."""
        if self._constant is not None:
            return self._constant
        return b"".join(
            [part if isinstance(part, bytes) else in_quotes(part(values)) for part in self._parts]
        )


def template(payload: bytes | None, timezone: str) -> Template:
    """The template that `payload`, JSON, stands for; formats are written in `timezone`."""
    if payload is None:
        return Template((b"null",))
    _check_json(payload)
    if not may_have_blanks(payload):
        return Template((payload,))
    home = zone(timezone)
    parts: list[bytes | _Blank] = []
    blanks = done = 0
    for start, end, text, pointer, _ in strings(payload, _ROOT):
        if "{{" not in text:
            continue
        try:
            pieces = list(_parts(text, home))
        except InvalidSchedule as error:
            raise InvalidSchedule(error.detail, pointer) from error
        blanks += sum(not isinstance(piece, bytes) for piece in pieces)
        if blanks > MOST_PLACEHOLDERS:
            detail = f"a payload may hold at most {MOST_PLACEHOLDERS} placeholders; send fewer"
            raise InvalidSchedule(detail, pointer)
        parts += [payload[done : start + 1], *pieces]
        done = end - 1
    parts.append(payload[done:])
    return Template(tuple(parts))


def known_placeholders() -> str:
    """The variables and what may be done to them, for a message."""
    return (
        f"{', '.join(_NAMES)}; and {', '.join(_MOMENTS)}, each alone or with a zone, a format, "
        "both (| Europe/Berlin | %Y-%m-%d), unix or unix_ms after |"
    )


def _check_json(payload: bytes) -> None:
    try:
        payload.decode()  # msgspec skips over what it need not understand
        msgspec.json.decode(payload)
    except UnicodeDecodeError as error:
        raise InvalidSchedule("is not UTF-8", _ROOT) from error
    except msgspec.DecodeError as error:
        raise InvalidSchedule(f"is not JSON: {error}", _ROOT) from error
    except RecursionError as error:
        raise InvalidSchedule("is nested too deeply; flatten it", _ROOT) from error


def _parts(text: str, home: ZoneInfo) -> Iterator[bytes | _Blank]:
    try:
        for piece in pieces(text):
            yield _blank(piece.text, home) if isinstance(piece, Blank) else in_quotes(piece)
    except ValueError as error:
        raise InvalidSchedule(str(error)) from error


def _blank(text: str, home: ZoneInfo) -> _Blank:
    name, *filters = (part.strip() for part in text.split("|"))
    if name in _NAMES:
        if filters:
            raise InvalidSchedule(f"{name} takes no filter; write {{{{{name}}}}}")
        return _name_blank(name)
    if name not in _MOMENTS:
        raise InvalidSchedule(
            f"{shortened(name)!r} is not a placeholder; known are {known_placeholders()}. "
            "Write {{{{ where {{ is meant as it is"
        )
    return _moment_blank(name, _form(filters, home))


def _name_blank(name: str) -> _Blank:
    return (lambda values: values.run_id) if name == "run_id" else (lambda values: values.job_name)


def _moment_blank(name: str, form: Callable[[datetime], str]) -> _Blank:
    def blank(values: Values) -> str:
        moment: datetime | None = getattr(values, name)
        return "" if moment is None else form(moment)

    return blank


def _form(filters: list[str], home: ZoneInfo) -> Callable[[datetime], str]:
    match filters:
        case []:
            return lambda moment: moment.astimezone(UTC).isoformat()[: -len("+00:00")] + "Z"
        case ["unix"]:
            return lambda moment: str((moment - _EPOCH) // timedelta(seconds=1))
        case ["unix_ms"]:
            return lambda moment: str((moment - _EPOCH) // timedelta(milliseconds=1))
        case [form] if "%" in form:
            return _format(form, home)
        case [name]:
            there = zone(name)
            return lambda moment: moment.astimezone(there).isoformat()
        case [name, form] if "%" in form:
            return _format(form, zone(name))
    raise InvalidSchedule(
        f"| {shortened(' | '.join(filters))} is not understood; after | may stand a zone, a "
        "format, a zone and a format (| Europe/Berlin | %Y-%m-%d), unix or unix_ms"
    )


def _format(form: str, where: ZoneInfo) -> Callable[[datetime], str]:
    if len(form) > MOST_FORMAT_CHARACTERS:
        raise InvalidSchedule(
            f"a format may have at most {MOST_FORMAT_CHARACTERS} characters; this has {len(form)}"
        )
    letters = [letter for letter in _DIRECTIVE.findall(form) if letter != "%"]
    for letter in letters:
        if letter not in _DIRECTIVES:
            known = " ".join(f"%{each}" for each in _DIRECTIVES)
            raise InvalidSchedule(f"%{letter} is not a directive; known are {known} and %%")
    directives = [_DIRECTIVES[letter] for letter in letters]
    skeleton = _DIRECTIVE.sub(lambda found: "%%" if found[1] == "%" else "%s", form)

    def formatted(moment: datetime) -> str:
        local = moment.astimezone(where)
        return skeleton % tuple([directive(local) for directive in directives])

    return formatted
