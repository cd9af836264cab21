"""What functions must look like to be run, and which of them are told about their run."""

import functools
from typing import Any

import pytest

from gnomon.node.run.targets.python import PythonCaller, takes_run
from gnomon.sdk.context import MAX_RESULT_BYTES, stored_result
from gnomon.settings import SettingsError


def one(payload: Any) -> None: ...


def two(payload: Any, run: Any) -> None: ...


def two_with_a_default(payload: Any, verbose: bool = False) -> None: ...


def one_and_named(payload: Any, *, retries: int = 3) -> None: ...


def one_and_anything_named(payload: Any, **options: Any) -> None: ...


async def two_async(payload: Any, /, run: Any) -> None: ...


def none() -> None: ...


def three(payload: Any, run: Any, more: Any) -> None: ...


def any_number(*arguments: Any) -> None: ...


def needs_a_name(payload: Any, *, retries: int) -> None: ...


class AnObject:
    def __call__(self, payload: Any, run: Any) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        one,
        one_and_named,
        one_and_anything_named,
        two_with_a_default,
        functools.partial(two, run=None),
        int,
    ],
)
def test_a_function_of_one_parameter_gets_the_payload(function: Any) -> None:
    assert not takes_run("f", function)


@pytest.mark.parametrize("function", [two, two_async, AnObject(), functools.partial(three, 1)])
def test_a_function_of_two_gets_the_run_too(function: Any) -> None:
    assert takes_run("f", function)


@pytest.mark.parametrize("function", [none, three, any_number, needs_a_name])
def test_any_other_is_refused_before_the_node_starts(function: Any) -> None:
    with pytest.raises(SettingsError, match="'f' must take one parameter, the payload, or two"):
        PythonCaller({"f": function}, 1)


def test_a_result_is_kept_or_what_is_wrong_with_it() -> None:
    assert stored_result({"a": [1]}) == '{"a":[1]}'
    assert stored_result("x" * (MAX_RESULT_BYTES - 2)) == '"' + "x" * (MAX_RESULT_BYTES - 2) + '"'
    assert "65536 are kept" in stored_result("x" * MAX_RESULT_BYTES)
    assert "cannot be kept as JSON" in stored_result(object())
