"""Errors of handlers as text: the user's own lines, whatever the classes of the errors do."""

import traceback
from typing import Any

import pytest
from tests.unit.sdk.claimed import executed

from gnomon.sdk.app import CallNext, Gnomon
from gnomon.sdk.declaring.dependencies import Depends
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.executing.failure import MAX_TRACEBACK_BYTES, bounded, describe, traceback_of
from gnomon.sdk.signals import Reject


class Silent(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


async def raised(app: Gnomon, name: str, payload: bytes | None = None) -> BaseException:
    with pytest.raises(BaseException) as caught:
        await executed(app, name, payload)
    return caught.value


def in_execution(text: str | None) -> list[str]:
    """The functions that it names, without those of the test that runs it."""
    assert text is not None
    found = [line.rpartition(" in ")[2] for line in text.splitlines() if "  File " in line]
    return [name for name in found if name not in ("raised", "executed")]


async def test_it_begins_with_the_handler_and_has_no_frame_of_gnomon() -> None:
    app = Gnomon()

    def deeper() -> None:
        raise ZeroDivisionError("none left")

    @app.middleware
    async def around(ctx: TaskContext, call_next: CallNext) -> object:
        return await call_next()

    @app.task
    async def work(needed: None = Depends(lambda: None)) -> None:
        deeper()

    error = await raised(app, "work")
    text = traceback_of(error)
    assert text is not None
    assert in_execution(text) == ["around", "work", "deeper"]
    assert text.splitlines()[0] == "Traceback (most recent call last):"
    assert text.splitlines()[-1] == "ZeroDivisionError: none left"
    assert "/gnomon/" not in text
    assert "deeper()" in text


async def test_a_function_in_a_thread_has_its_own_lines_only() -> None:
    app = Gnomon()

    @app.task
    def work() -> None:
        raise ValueError("mine")

    text = traceback_of(await raised(app, "work"))
    assert text is not None
    assert "sdk/declaring/handler.py" not in text
    assert in_execution(text)[-1] == "work"


async def test_the_errors_before_it_and_those_of_a_group_are_told() -> None:
    app = Gnomon()

    def first() -> None:
        raise KeyError("first")

    def second() -> None:
        try:
            first()
        except KeyError as error:
            raise OSError("second") from error

    @app.task
    async def work() -> None:
        try:
            second()
        except OSError:
            raise ExceptionGroup("both", [ValueError("third"), TypeError("fourth")])  # noqa: B904

    text = traceback_of(await raised(app, "work"))
    assert text is not None
    for part in (
        "KeyError: 'first'",
        "The above exception was the direct cause",
        "OSError: second",
        "During handling of the above exception",
        "ExceptionGroup: both (2 sub-exceptions)",
        "ValueError: third",
        "TypeError: fourth",
    ):
        assert part in text


async def test_bad_arguments_have_no_traceback_as_no_code_of_the_user_ran() -> None:
    app = Gnomon()

    @app.task
    async def work(n: int) -> None: ...

    with pytest.raises(Reject) as caught:
        work.decode(b"{}")
    frames = caught.value.__traceback__
    assert frames is not None
    assert traceback_of(caught.value.with_traceback(frames.tb_next)) is None


@pytest.mark.parametrize("chained", [False, True])
async def test_an_error_whose_text_cannot_be_had_still_has_its_lines(chained: bool) -> None:
    app = Gnomon()

    @app.task
    async def work() -> None:
        if chained:
            raise ValueError("told") from Silent()
        raise Silent

    error = await raised(app, "work")
    text = traceback_of(error)
    assert text is not None
    assert in_execution(text)[-1] == "work"
    assert ("ValueError: told" if chained else "Silent") in text


class Texts:
    """Texts that PostgreSQL cannot hold, or would not want to."""

    NUL = "a\0b"
    HALF = "\ud800"
    LONG = "x" * 1_000_000


@pytest.mark.parametrize("text", [Texts.NUL, Texts.HALF, Texts.LONG])
async def test_it_can_be_stored(text: str) -> None:
    app = Gnomon()

    @app.task
    async def work() -> None:
        raise ValueError(text)

    error = await raised(app, "work")
    for told in (traceback_of(error), describe(error)):
        assert told is not None
        assert "\0" not in told
        assert len(told.encode()) <= MAX_TRACEBACK_BYTES


async def test_of_a_long_one_the_middle_is_left_out() -> None:
    app = Gnomon()

    def down(n: Any) -> None:
        if n == 0:
            raise RecursionError("deep enough")
        (lambda: down(n - 1))() if n % 2 else down(n - 1)

    @app.task
    async def work() -> None:
        down(400)

    text = traceback_of(await raised(app, "work"))
    assert text is not None
    assert "bytes and more left out" in text
    assert text.startswith("Traceback (most recent call last):")
    assert text.endswith("RecursionError: deep enough")
    assert len(text.encode()) <= MAX_TRACEBACK_BYTES


def test_characters_are_not_cut_in_half() -> None:
    told = bounded("ä" * MAX_TRACEBACK_BYTES)
    assert "\N{REPLACEMENT CHARACTER}" not in told
    assert len(told.encode()) <= MAX_TRACEBACK_BYTES


async def test_it_says_what_python_says() -> None:
    """Of an error without wrapping it is word for word the same."""
    with pytest.raises(ValueError) as caught:
        int("plain")
    expected = "".join(traceback.format_exception(caught.value)).rstrip()
    assert traceback_of(caught.value) == expected
