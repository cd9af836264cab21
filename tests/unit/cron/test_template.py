"""What a template writes, what it refuses, and that what it took can always be filled in."""

import json
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gnomon.cron.template import (
    MOST_FORMAT_CHARACTERS,
    MOST_PLACEHOLDERS,
    Values,
    known_placeholders,
    template,
)
from gnomon.model.errors import InvalidSchedule

FIRE = datetime(2026, 3, 29, 7, 5, 9, tzinfo=UTC)  # a Sunday, the day that summer time began
VALUES = Values(
    fire_time=FIRE,
    scheduled_for=FIRE - timedelta(seconds=9),
    previous_fire_time=FIRE - timedelta(days=1),
    run_id="0196f2f5-7a8b",
    job_name='The "big" one\\ Grüße\n',
)


def filled(text: str, values: Values = VALUES, timezone: str = "Europe/Berlin") -> object:
    """What becomes of the string `text`."""
    return json.loads(template(json.dumps(text).encode(), timezone).render(values))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{{fire_time}}", "2026-03-29T07:05:09Z"),
        ("{{ scheduled_for }}", "2026-03-29T07:05:00Z"),
        ("{{previous_fire_time}}", "2026-03-28T07:05:09Z"),
        ("{{fire_time | Europe/Berlin}}", "2026-03-29T09:05:09+02:00"),
        ("{{previous_fire_time|Europe/Berlin}}", "2026-03-28T08:05:09+01:00"),
        ("{{fire_time | UTC}}", "2026-03-29T07:05:09+00:00"),
        ("{{ fire_time | %Y-%m-%d }}", "2026-03-29"),
        ("{{fire_time|%H:%M}}", "09:05"),
        ("{{fire_time | Asia/Tokyo | %d.%m.%Y %H:%M}}", "29.03.2026 16:05"),
        ("{{fire_time | unix}}", "1774767909"),
        ("{{fire_time | unix_ms}}", "1774767909000"),
        ("{{run_id}}", "0196f2f5-7a8b"),
        ("{{\tjob_name }}", 'The "big" one\\ Grüße\n'),
        ("{{run_id}}{{run_id}}", "0196f2f5-7a8b" * 2),
        ('ü"\\ {{run_id}} "ü', 'ü"\\ 0196f2f5-7a8b "ü'),
        ('{{fire_time | "%Y"\\%m}}', '"2026"\\03'),
        ("{{{{", "{{"),
        ("{{{{fire_time}}", "{{fire_time}}"),
        ("{{{{{", "{{{"),
        ("{{{run_id}}}", "{0196f2f5-7a8b}"),
        ("{{{{{{run_id}}}}", "{{0196f2f5-7a8b}}"),
        ("{{{{{{{run_id}}", "{{{0196f2f5-7a8b"),
        ("{{{{{{{{", "{{{{"),
        ("{ } }} {x}", "{ } }} {x}"),
    ],
)
def test_what_a_blank_becomes(text: str, written: str) -> None:
    assert filled(text) == written


@pytest.mark.parametrize(
    ("directive", "written"),
    [
        ("%Y", "2026"), ("%y", "26"), ("%m", "03"), ("%d", "29"), ("%j", "088"),
        ("%H", "09"), ("%I", "09"), ("%p", "AM"), ("%M", "05"), ("%S", "09"), ("%f", "000000"),
        ("%b", "Mar"), ("%B", "March"), ("%a", "Sun"), ("%A", "Sunday"), ("%u", "7"),
        ("%G", "2026"), ("%V", "13"), ("%z", "+0200"), ("%Z", "CEST"), ("%Y%%", "2026%"),
        ("%%Y", "%Y"), ("%%%Y", "%2026"),
    ],
)  # fmt: skip
def test_what_each_directive_writes(directive: str, written: str) -> None:
    assert filled(f"{{{{fire_time | {directive}}}}}") == written


@given(
    st.integers(-30_000_000_000, 253_000_000_000),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia"]),
)
def test_directives_mean_what_strftime_means(seconds: int, name: str) -> None:
    form = "%Y %y %m %d %j %H %I %p %M %S %f %b %B %a %A %u %G %V %z %Z"
    fire = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    values = msgspec.structs.replace(VALUES, fire_time=fire)
    expected = fire.astimezone(ZoneInfo(name)).strftime(form)
    assert filled(f"{{{{fire_time | {form}}}}}", values, name) == expected


def test_years_keep_four_digits_and_noon_is_twelve() -> None:
    early = msgspec.structs.replace(VALUES, fire_time=datetime(33, 4, 3, 0, 0, tzinfo=UTC))
    assert filled("{{fire_time | %Y %G %y %I %p}}", early, "UTC") == "0033 0033 33 12 AM"
    noon = msgspec.structs.replace(VALUES, fire_time=datetime(2033, 4, 3, 12, 0, tzinfo=UTC))
    assert filled("{{fire_time | %I %p}}", noon, "UTC") == "12 PM"


def test_moments_may_come_in_any_zone_and_with_fractions() -> None:
    moment = datetime(2026, 1, 1, 1, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    values = msgspec.structs.replace(VALUES, fire_time=moment)
    assert filled("{{fire_time}}", values) == "2025-12-31T23:00:00.999999Z"
    assert filled("{{fire_time | unix}}", values) == "1767222000"
    assert filled("{{fire_time | unix_ms}}", values) == "1767222000999"
    before = msgspec.structs.replace(VALUES, fire_time=datetime(1969, 12, 31, 23, 59, 59, 1, UTC))
    assert filled("{{fire_time | unix}}", before) == "-1"


@pytest.mark.parametrize("filters", ["", "| UTC", "| %Y", "| UTC | %Y", "| unix", "| unix_ms"])
def test_a_first_run_has_no_previous_one(filters: str) -> None:
    values = msgspec.structs.replace(VALUES, previous_fire_time=None)
    assert filled(f"<{{{{previous_fire_time {filters}}}}}>", values) == "<>"


def test_everything_around_a_blank_keeps_its_bytes() -> None:
    payload = (
        b' { "a" : [1.00, -0e5 , {"{{run_id}}":\t"x"}],\n"a":"\\u00fc\\/","{{{{":null,'
        b'"t":"\xc3\xbc {{fire_time | unix}}"} '
    )
    assert template(payload, "UTC").render(VALUES) == (
        b' { "a" : [1.00, -0e5 , {"0196f2f5-7a8b":\t"x"}],\n"a":"\\u00fc\\/","{{":null,'
        b'"t":"\xc3\xbc 1774767909"} '
    )


def test_an_escaped_brace_is_a_brace() -> None:
    assert template(rb'"\u007b\u007Brun_id}}"', "UTC").render(VALUES) == b'"0196f2f5-7a8b"'
    assert template(rb'"{\u007brun_id}}"', "UTC").render(VALUES) == b'"0196f2f5-7a8b"'


def test_a_constant_payload_is_the_same_object_every_time() -> None:
    payload = b'{"a": {"b": "{ }} %Y"}}'
    constant = template(payload, "UTC")
    assert constant.is_constant
    assert constant.render(VALUES) is constant.render(VALUES)
    assert template(b'"{{{{x}}"', "UTC").is_constant
    assert not template(b'"{{run_id}}"', "UTC").is_constant


def test_no_payload_is_null() -> None:
    assert template(None, "UTC").is_constant
    assert template(None, "UTC").render(VALUES) == b"null"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{{firetime}}", "'firetime' is not a placeholder; known are job_name, run_id; and fire_t"),
        ("{{}}", "'' is not a placeholder"),
        ("{{ FIRE_TIME }}", "'FIRE_TIME' is not a placeholder"),
        ("{{" + "x" * 1000 + "}}", "'" + "x" * 60 + "...' is not a placeholder"),
        ("x {{fire_time", "{{fire_time is never closed: end the placeholder with }}, or write"),
        ("{{fire_time}", "is never closed"),
        ("{{{{{{", "is never closed"),
        ("{{fire_time {{run_id}}", "is not a placeholder"),
        ("{{run_id | %Y}}", "run_id takes no filter; write {{run_id}}"),
        ("{{job_name|}}", "job_name takes no filter; write {{job_name}}"),
        ("{{fire_time | %Q}}", "%Q is not a directive; known are %Y %y %m"),
        ("{{fire_time | %-d}}", "%- is not a directive"),
        ("{{fire_time | %Y%}}", "% is not a directive"),
        ("{{fire_time | %s}}", "%s is not a directive"),
        ("{{fire_time | %Y | Europe/Berlin}}", "is not understood; after | may stand a zone"),
        ("{{fire_time | UTC | Y}}", "is not understood"),
        ("{{fire_time | UTC | unix}}", "is not understood"),
        ("{{fire_time | UTC | %H | %M}}", "is not understood"),
        ("{{fire_time | " + "%Y" * MOST_FORMAT_CHARACTERS + "}}", "at most 200 characters; this"),
        ("{{fire_time | Europe/Berln}}", "Europe/Berlin"),
        ("{{fire_time | ../../etc/passwd}}", "etc/passwd"),
        ("{{fire_time | }}", ""),
        ("{{run_id}}" * (MOST_PLACEHOLDERS + 1), "at most 100 placeholders"),
    ],
)
def test_what_cannot_be_filled_in_is_refused_with_what_could(text: str, says: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        filled(text)
    assert says in refusal.value.detail
    assert refusal.value.pointer == "/payload_template"
    assert len(refusal.value.detail) < 1000


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        ({"report": {"day": "{{x}}"}}, "/report/day"),
        ({"a": "{{run_id}}", "b": [1, ["{{run_id}}"], {"c": 0}, [2, 3, "{{x}}"]]}, "/b/3/2"),
        ({"a": {"b": [], "c": {}}, "{{x}}": 1}, "/{{x}}"),
        ({"a/b": {"~": {"": "{{x}}"}}}, "/a~1b/~0/"),
        (["[{,", "\"{,'\\", "{{x}}"], "/2"),
    ],
)
def test_a_refusal_names_the_place(payload: object, pointer: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        template(json.dumps(payload).encode(), "UTC")
    assert refusal.value.pointer == "/payload_template" + pointer


def test_placeholders_are_counted_over_the_whole_payload() -> None:
    template(json.dumps(["{{run_id}}"] * MOST_PLACEHOLDERS).encode(), "UTC")
    with pytest.raises(InvalidSchedule) as refusal:
        template(json.dumps(["{{run_id}}"] * (MOST_PLACEHOLDERS + 1)).encode(), "UTC")
    assert refusal.value.pointer == f"/payload_template/{MOST_PLACEHOLDERS}"


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"{{run_id}}", b'"{{run_id}}', b"NaN", b'"\xff"', b"[" * 100_000]
)
def test_what_is_not_json_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidSchedule, match=r"is not|is nested") as refusal:
        template(payload, "UTC")
    assert refusal.value.pointer == "/payload_template"


def test_a_message_can_name_every_placeholder() -> None:
    for name in (*Values.__struct_fields__, "unix", "unix_ms"):
        assert name in known_placeholders()


plain = st.text().map(lambda text: text.replace("{{", "{ "))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
documents = st.recursive(
    scalars.filter(lambda value: value not in (float("inf"), float("-inf"))) | plain,
    lambda inner: st.lists(inner) | st.dictionaries(plain, inner),
)
any_text = st.text(st.characters(exclude_categories=[]))  # half surrogate pairs too
braceless = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}"))
blanks = st.sampled_from(
    [
        ("{{run_id}}", "0196f2f5-7a8b"),
        ("{{ fire_time | unix }}", "1774767909"),
        ('{{fire_time|Asia/Tokyo| "\u2028%H}}', '"\u202816'),
        ("{{previous_fire_time | %A%%}}", "Saturday%"),
        ("{{{{", "{{"),
    ]
)


@given(documents, st.sampled_from([None, 2]), st.booleans())
def test_a_payload_without_placeholders_keeps_its_bytes(
    document: object, indent: int | None, ascii_only: bool
) -> None:
    payload = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    assert template(payload, "UTC").render(VALUES) == payload


@given(st.lists(braceless.map(lambda text: (text, text)) | blanks), st.booleans())
def test_blanks_are_filled_and_the_text_between_them_is_kept(
    parts: list[tuple[str, str]], ascii_only: bool
) -> None:
    # A brace next to another would make a longer run.
    text, written = (" ".join(side) for side in zip(*parts, strict=True)) if parts else ("", "")
    payload = json.dumps({text: [text]}, ensure_ascii=ascii_only).encode()
    assert json.loads(template(payload, "UTC").render(VALUES)) == {written: [written]}


@given(st.text('{}a"', max_size=20) | st.text())
@example("{{{")
def test_doubled_braces_stand_for_themselves(text: str) -> None:
    assert filled(text.replace("{{", "{{{{")) == text


@given(st.text("{} |%Y", max_size=20).map(lambda text: text.replace(" ", "fire_time")), any_text)
@example("{{{job_name}}}", '\ud800"')
def test_what_is_taken_gives_json_whatever_the_job_is_called(text: str, name: str) -> None:
    values = msgspec.structs.replace(VALUES, job_name=name)
    try:
        assert isinstance(filled(text + "{{{{{{job_name}}", values), str)
    except InvalidSchedule:
        return
