"""The parts of a task's page, and of the form that submits one, that are pure."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.model.test_explanation import NOW, a_task

from gnomon.dashboard.drawing.gantt import gantt
from gnomon.dashboard.drawing.state_diagram import state_diagram, way_of
from gnomon.dashboard.forms import local_time, task_form
from gnomon.dashboard.forms.schema_example import example_of
from gnomon.dashboard.text.json_tree import MOST_NODES, JsonNode, shown_json
from gnomon.model.errors import InvalidTask
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import Status
from gnomon.usecases.tasks.task_requests import SubmitTask


def a_try(attempt: int, since: float, until: float | None, outcome: str = "failed") -> Execution:
    return Execution(
        attempt=attempt, outcome=outcome, worker="n", started_at=NOW + timedelta(seconds=since),
        finished_at=None if until is None else NOW + timedelta(seconds=until), error=None,
        response_status=None, response_body=None, result=None, traceback=None,
    )  # fmt: skip


def bars_of(found: Any) -> list[list[tuple[str, str]]]:
    return [[tuple(bar.title.split(" ", 1)) for bar in row.bars] for row in found.rows]


def test_each_part_of_a_try_is_a_bar() -> None:
    task = a_task(Status.DEAD_LETTERED, execute_at=NOW + timedelta(seconds=2), attempt=2)
    found = gantt(task, [a_try(1, 3, 5), a_try(2, 9, 10)], NOW + timedelta(hours=1))
    assert found is not None
    assert bars_of(found) == [
        [("waiting", "2 s"), ("queued", "1 s"), ("running", "2 s")],
        [("back-off", "4 s"), ("running", "1 s")],
    ]
    assert (found.kinds, found.outcomes) == (("waiting", "queued", "back-off"), ("failed",))
    first, last = found.rows[0].bars[0], found.rows[1].bars[-1]
    assert first.x == 0
    assert last.x + last.width == pytest.approx(1000)


def test_a_running_try_grows_up_to_now() -> None:
    task = a_task(Status.RUNNING, attempt=1)
    seconds = []
    for now in (2, 60):
        found = gantt(task, [a_try(1, 1, None, "running")], NOW + timedelta(seconds=now))
        assert found is not None
        seconds.append(found.rows[0].bars[-1].title)
    assert seconds == ["running 1 s", "running 59 s"]


def test_months_of_waiting_leave_room_for_the_rest() -> None:
    task = a_task(Status.COMPLETED, execute_at=NOW + timedelta(days=90), attempt=1)
    due = timedelta(days=90).total_seconds()
    found = gantt(task, [a_try(1, due + 1, due + 3, "succeeded")], NOW)
    assert found is not None
    assert found.cut
    waiting, queued, running = found.rows[0].bars
    assert (waiting.title, waiting.cut) == ("waiting 90 d", True)
    assert waiting.width == pytest.approx(250)
    assert running.width == pytest.approx(2 * queued.width)


@pytest.mark.parametrize(
    ("task", "tries", "bars"),
    [
        (
            a_task(Status.SCHEDULED, execute_at=NOW + timedelta(seconds=9)),
            [],
            [("waiting", "9 s")],
        ),
        (a_task(Status.READY), [], [("queued", "5 s")]),
        (
            a_task(Status.FAILED, attempt=1, next_retry_at=NOW + timedelta(seconds=8)),
            [a_try(1, 1, 2)],
            [("back-off", "6 s")],
        ),
        (a_task(Status.READY, attempt=1), [a_try(1, 1, 2)], [("back-off", "3 s")]),
    ],
)  # fmt: skip
def test_the_wait_for_a_try_to_come_is_drawn(
    task: Any, tries: list[Execution], bars: list[tuple[str, str]]
) -> None:
    found = gantt(task, tries, NOW + timedelta(seconds=5))
    assert found is not None
    assert bars_of(found)[-1] == bars
    assert found.rows[-1].label == "next"


def test_what_never_started_has_no_chart() -> None:
    assert gantt(a_task(Status.CANCELLED), [], NOW) is None
    assert gantt(a_task(Status.EXPIRED), [], NOW) is None


LATER = NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("fields", "tries", "steps"),
    [
        ({"status": Status.SCHEDULED, "execute_at": LATER}, [], "scheduled"),
        ({"status": Status.READY}, [], "ready"),
        ({"status": Status.READY, "execute_at": LATER}, [], "scheduled ready"),
        ({"status": Status.PAUSED, "execute_at": LATER}, [], "scheduled paused"),
        ({"status": Status.BLOCKED}, [], "blocked"),
        ({"status": Status.RUNNING, "attempt": 1}, [], "ready running"),
        ({"status": Status.FAILED, "attempt": 1}, [], "ready running failed"),
        (
            {"status": Status.DEAD_LETTERED, "attempt": 3},
            [],
            "ready running failed ready dead_lettered",
        ),
        ({"status": Status.COMPLETED, "attempt": 1}, [], "ready running completed"),
        ({"status": Status.CANCELLED}, [], "ready cancelled"),
        ({"status": Status.CANCELLED, "execute_at": LATER}, [], "scheduled cancelled"),
        (
            {"status": Status.CANCELLED, "attempt": 1},
            [a_try(1, 0, 1, "cancelled")],
            "ready running cancelled",
        ),
        ({"status": Status.EXPIRED}, [], "ready expired"),
    ],
)
def test_the_way_of_a_task(fields: dict[str, Any], tries: list[Execution], steps: str) -> None:
    way = way_of(a_task(**fields), tries)
    assert " ".join(to.lower() for _, to in way.steps) == steps
    assert way.retries == max(0, fields.get("attempt", 0) - 1)
    svg = state_diagram(way)
    assert svg.count('class="state here') == 1
    assert svg.count('class="edge taken"') == len(way.steps)
    assert "Now: " in svg


def _nodes(node: JsonNode) -> int:
    return 1 + sum(map(_nodes, node.members))


@pytest.mark.parametrize(
    "value",
    [
        list(range(100_000)),
        {str(n): {"a": [n, "x" * 50]} for n in range(2_000)},
        "y" * 250_000,
        {"k" * 10: "z" * 250_000},
    ],
    ids=["array", "objects", "string", "field"],
)
def test_a_large_tree_is_cut_and_says_so(value: Any) -> None:
    content = json.dumps(value).encode()
    found = shown_json(content)
    assert found.tree is not None
    assert found.cut
    assert found.size == len(content)
    assert _nodes(found.tree) < MOST_NODES + 100
    assert len(repr(found.tree)) < 200_000


def test_what_is_left_out_is_counted() -> None:
    found = shown_json(json.dumps(list(range(1_000))).encode())
    assert found.tree is not None
    *shown, more = found.tree.members
    assert (found.tree.text, more.text) == ("1000 items", f"{1_000 - len(shown)} more")


def test_a_local_time_is_of_its_zone() -> None:
    found = local_time.moment_of("2030-07-01T12:00", "Europe/Berlin", "/at")
    assert found == datetime(2030, 7, 1, 10, tzinfo=UTC)
    # Of two that are the same, the earlier one.
    twice = local_time.moment_of("2030-10-27T02:30", "Europe/Berlin", "/at")
    assert twice == datetime(2030, 10, 27, 0, 30, tzinfo=UTC)
    assert local_time.written(found, "Europe/Berlin") == "2030-07-01T12:00:00"
    assert local_time.moment_of("2030-01-01T00:00+02:00", "UTC", "/at").hour == 22
    with pytest.raises(InvalidTask, match="does not exist in Europe/Berlin"):
        local_time.moment_of("2030-03-31T02:30", "Europe/Berlin", "/at")


def test_the_form_has_every_field_of_a_submission() -> None:
    shown = {"target", "callback_url", "callback_method", "retry_policy", "execute_at"}
    # `from` is the task that it repeats; batches are filled by programs.
    shown |= {"delay_seconds", "retry_of", "batch_id", *task_form.BLANK}
    assert set(SubmitTask.__struct_fields__) <= shown
    for pointer, field in (
        ("/retry_policy/max_retries", "max_retries"),
        ("/target/headers/a", "headers"),
        ("/tags/3", "tags"),
        ("/payload/from", "payload"),
        ("", ""),
        ("/nothing", ""),
    ):
        assert task_form.field_of(pointer) == field


def test_a_duplicate_is_the_same_submission() -> None:
    payload = '{"a": 9223372036854775809, "b": "\u202e\x7f"}'.encode()
    form = task_form.of_task(a_task(Status.COMPLETED, payload=payload, tags=("x", "y")))
    assert "\u202e" not in form["payload"]
    assert json.loads(form["payload"]) == json.loads(payload)
    assert json.loads(task_form.body_of(form | {"form_key": "k"}))["tags"] == ["x", "y"]


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}}, {"a": 3}),
        ({"properties": {"a": {"default": 7}, "b": {}}, "required": ["a"]}, {"a": 7}),
        ({"$ref": "#/$defs/x~1y", "$defs": {"x/y": {"enum": ["e", "f"]}}}, "e"),
        ({"type": "array", "items": {"type": "boolean"}}, [False]),
        ({"anyOf": [{"const": None}, {"type": "string"}]}, None),
        ({"type": ["string", "null"], "format": "date"}, "2030-01-31"),
    ],
)
def test_an_example_is_made_of_a_schema(schema: dict[str, Any], example: Any) -> None:
    made = example_of(json.dumps(schema).encode())
    assert made is not None
    assert json.loads(made) == example


@pytest.mark.parametrize(
    "schema",
    [
        b"true", b"{}", b"no", b"[" * 5000,
        b'{"$ref": "#"}',
        json.dumps({"properties": {str(n): {} for n in range(500)}}).encode(),
    ],
    ids=range(6),
)  # fmt: skip
def test_where_no_example_can_be_made_there_is_none(schema: bytes) -> None:
    assert example_of(schema) is None


@pytest.mark.parametrize("text", ["9" * 400, "1e308", "1e400", "nan", "-inf", "9" * 5000])
def test_a_number_beyond_all_numbers_is_refused_and_not_taken_for_none(text: str) -> None:
    form = task_form.filled(
        {"task_type": "a", "when": "after", "delay": text, "delay_unit": "days"}
    )
    with pytest.raises(InvalidTask, match="is no number"):
        task_form.body_of(form)
