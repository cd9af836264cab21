"""Errors that differ only in their details have one fingerprint, whatever they hold."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.errors import InvalidTask
from gnomon.model.outcomes.fingerprint import (
    HIGHEST,
    KEPT,
    READ,
    fingerprint,
    normalised,
    of_type,
    read,
    written,
)

ID = "018f6a3e-1c2d-7abc-8def-0123456789ab"


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        ("HTTP 503 Service Unavailable", "HTTP 503 Service Unavailable"),
        ("ValueError: invalid literal for int() with base 10: 'x1'",
         "ValueError: invalid literal for int() with base <n>: <text>"),
        ("can't open 'a b' at 0x7f3a2b", "can't open <text> at <hex>"),
        (f"order {ID} of Bob's is gone", "order <id> of Bob's is gone"),
        ("cannot reach 10.0.0.3:8443 or [fe80::1]:80", "cannot reach <address> or <address>"),
        ("due 2026-01-02T03:04:05.678Z, now 12:34:56", "due <time>, now <time>"),
        ("took 3.5 s for 1,234 rows, -1e9", "took <n> s for <n> rows, <n>"),
        ("commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit <hex>"),
        ("a\n\n  b\tc ", "a b c"),
        ("", "no error was told"),
        (None, "no error was told"),
    ],
)  # fmt: skip
def test_what_differs_from_one_time_to_the_next_is_replaced(error: str | None, kept: str) -> None:
    assert normalised(error) == kept


def test_other_answers_are_other_errors() -> None:
    assert fingerprint("a", "HTTP 500 x") != fingerprint("a", "HTTP 503 x")
    assert fingerprint("a", "no such user") != fingerprint("b", "no such user")


@given(st.integers(), st.integers(), st.uuids(), st.uuids(), st.text(), st.text())
def test_numbers_ids_and_quoted_text_do_not_matter(
    number: int, other: int, one: object, two: object, text: str, more: str
) -> None:
    def error(*details: object) -> str:
        name = str(details[2]).replace("'", "").replace("\n", "")
        return f"row {details[0]} of {details[1]}: '{name}' is wrong"

    first, second = error(number, one, text[:500]), error(other, two, more[:500])
    assert fingerprint("a", first) == fingerprint("a", second)


@given(st.text(), st.text(max_size=5_000))
def test_any_error_has_a_bounded_normal_form_and_a_fingerprint_of_its_type(
    task_type: str, error: str
) -> None:
    found = normalised(error)
    assert 0 < len(found) <= KEPT
    assert "\n" not in found
    value = fingerprint(task_type, error)
    first, last = of_type(task_type)
    assert 0 <= first <= value <= last <= HIGHEST
    assert read(written(value)) == value
    assert fingerprint(task_type, error + "x" * READ) == fingerprint(
        task_type, (error + "x" * READ)[:READ]
    )


@given(st.text(alphabet="ab1: \n", max_size=40), st.text(alphabet="ab1: \n", max_size=40))
def test_what_comes_after_what_is_kept_does_not_count(text: str, tail: str) -> None:
    long = f"{text} " + "word  " * KEPT
    assert normalised(f"{long}{tail}"[:READ]) == normalised(long)


@given(st.text(alphabet="abc '\"<>:.", max_size=200))
def test_what_is_normal_stays(error: str) -> None:
    once = normalised(error)
    assert normalised(once) == once or "'" in error or '"' in error


def test_hostile_errors_take_linear_time() -> None:
    parts = ["'", '"', "`", "“", "«", "a", "0", "9-", ":", "1.", "0x", "[", "f:", "::", "1,", "1e+",
             "deadbeef", "aaaaaaaa-", "0000-00-00T", "HTTP ", "\n", "_"]  # fmt: skip
    pairs = itertools.product(parts, ("", "a", "0", " ", ":"))
    texts = [(one + other) * READ for one, other in pairs] + [one + "a" * READ for one in parts]
    for text in texts:
        # Quadratic, it would take 40 ms and more; it takes less than 2.
        assert min(_seconds(text) for _ in range(3)) < 0.015, text[:20]


def _seconds(text: str) -> float:
    begun = time.process_time()
    normalised(text)
    return time.process_time() - begun


@pytest.mark.parametrize(
    "text", ["", "12", "g" * 16, "F" * 16, "8" + "0" * 15, "0" * 17, "0" * 16 + "\n"]
)
def test_what_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(InvalidTask, match="16 hexadecimal digits"):
        read(text)
