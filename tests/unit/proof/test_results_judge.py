"""The judge of what programs were told notices whatever is wrong with it."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from proof.campaigns.results import judge
from proof.campaigns.waiter import Heard, Summary

GOOD: dict[str, Any] = {"n": 3, "kind": "on_the_loop", "seconds": 1.0}
ANSWER = {"n": 3, "square": 9}
DOOMED = {**GOOD, "kind": "never", "failure": "Doomed: 3", "traceback": "line 1, in never"}


def judged(*heard: dict[str, Any], acknowledged: int = 1) -> list[str]:
    lines: list[msgspec.Struct] = [Heard(**each) for each in heard]
    lines.append(Summary(acknowledged=acknowledged))
    text = "\n".join(msgspec.json.encode(each).decode() for each in lines)
    return judge({"program": text}, Counter()).wrong


@pytest.mark.parametrize("heard", [{**GOOD, "answer": ANSWER}, DOOMED])
def test_what_is_right_is_passed(heard: dict[str, Any]) -> None:
    assert judged(heard) == []


@pytest.mark.parametrize(
    "heard",
    [
        GOOD,
        {**GOOD, "answer": {"n": 3, "square": 16}},
        {**GOOD, "answer": {"n": 4, "square": 16}},
        {**GOOD, "failure": "ValueError"},
        {**GOOD, "wrong": "NotFound"},
        {**DOOMED, "failure": "Doomed: 4"},
        {**DOOMED, "traceback": None},
        {**DOOMED, "failure": None, "answer": ANSWER},
    ],
)
def test_what_is_wrong_is_named(heard: dict[str, Any]) -> None:
    (found,) = judged(heard)
    assert found.startswith(f"{heard['kind']} 3: ")


def test_a_task_that_nobody_heard_of_is_named() -> None:
    right = {**GOOD, "answer": ANSWER}
    assert judged(right, acknowledged=2) == ["program has asked for 2 and heard of 1"]
    assert judged(right, right) == ["program has asked for 1 and heard of 2"]


def test_a_program_that_has_not_ended_is_named() -> None:
    assert judge({"program": "Traceback"}, Counter()).wrong == ["program has not ended: Traceback"]
