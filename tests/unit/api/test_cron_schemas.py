"""What comes in about cron jobs, checked and explained, without a server."""

import contextlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar.routes import HTTPRoute

from gnomon.api.cron.cron_jobs import router
from gnomon.api.cron.schemas import JobStatus, RunKindView, RunStatus
from gnomon.api.cron.views import (
    definition_view,
    difference,
    job_view,
    run_cursor_of,
    run_cursor_view,
    run_view,
)
from gnomon.api.http.requests.reading import decoded
from gnomon.cron.job import CronJob, CronRun, Definition, RunKind, Skipped
from gnomon.model.errors import InvalidTask, PayloadTooLarge
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Lane
from gnomon.usecases.cron.cron_requests import CreateCronJob, PatchCronJob, PutCronJob
from gnomon.usecases.cron.definitions import definition_of, edit_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB_ID = UUID("01890000-0000-7000-8000-000000000000")
BODY: dict[str, Any] = {
    "name": "j",
    "task_type": "t",
    "callback_url": "http://127.0.0.1/",
    "cron_expression": "0 9 * * *",
}


def definition(**fields: Any) -> Definition:
    asked = decoded(msgspec.json.encode(BODY | fields), CreateCronJob)
    return definition_of(asked, asked.name, 1000)


def patched(before: Definition, **fields: Any) -> Definition:
    return edit_of(decoded(msgspec.json.encode(fields), PatchCronJob), 1000)(before)


def job(of: Definition, **fields: Any) -> CronJob:
    whole: dict[str, Any] = {
        "id": JOB_ID, "tenant_id": "default", "definition": of, "version": 1, "runs": 0,
        "next_fire_at": None, "active_task_id": None, "paused_at": None, "pause_reason": None,
        "created_at": NOW, "updated_at": NOW, "created_by": None,
    }  # fmt: skip
    return CronJob(**(whole | fields))


def run(**fields: Any) -> CronRun:
    whole: dict[str, Any] = {
        "cron_job_id": JOB_ID, "fire_at": NOW, "kind": RunKind.SCHEDULED, "task_id": None,
        "skipped": None, "missed": 0, "status": None, "started_at": None, "finished_at": None,
        "attempt": None, "last_error": None, "sla_missed_at": None,
    }  # fmt: skip
    return CronRun(**(whole | fields))


def test_defaults_are_those_of_a_definition() -> None:
    assert definition() == Definition(
        name="j",
        task_type="t",
        target=HttpTarget("http://127.0.0.1/"),
        cron_expression="0 9 * * *",
    )
    assert definition(payload_template=None).payload_template is None


def test_everything_that_is_asked_for_is_kept() -> None:
    found = definition(
        priority="HIGH",
        tags=["a", "b", "a"],
        start_date="2026-06-01T00:00:00+02:00",
        dst={"fold": "both"},
        payload_template={"day": "{{ fire_time | %Y-%m-%d }}"},
    )
    assert (found.priority, found.tags) == (Lane.HIGH, ("a", "b"))
    assert found.start_date == datetime(2026, 5, 31, 22, tzinfo=UTC)
    assert (found.dst.gap, found.dst.fold) == ("fire_after", "both")
    assert found.payload_template == msgspec.Raw(b'{"day":"{{ fire_time | %Y-%m-%d }}"}')


def test_a_template_has_the_limit_of_a_payload() -> None:
    with pytest.raises(PayloadTooLarge) as caught:
        definition(payload_template="x" * 1000)
    assert caught.value.pointer == "/payload_template"


@pytest.mark.parametrize("name", ["preview", ".", "..", " a", "a/b", str(JOB_ID), "a\0", "é" * 201])
def test_a_name_that_could_not_be_found_again_is_refused(name: str) -> None:
    asked = decoded(msgspec.json.encode(BODY | {"name": None}), PutCronJob)
    with pytest.raises(InvalidTask) as caught:
        definition_of(asked, name, 1000)
    assert caught.value.pointer == "/name"


def test_a_patch_leaves_the_rest_alone() -> None:
    before = definition(tags=["a"], payload_template=[1], max_runs=3)
    assert patched(before) == before
    after = patched(before, tags=[], payload_template=None, max_runs=None, priority="LOW")
    assert after == msgspec.structs.replace(
        before, tags=(), payload_template=None, max_runs=None, priority=Lane.LOW
    )
    target = {"type": "python", "function": "f"}
    assert patched(before, target=target).target == PythonTarget("f")


def test_a_new_kind_of_schedule_takes_off_the_old() -> None:
    cron = definition()
    interval = patched(cron, interval_seconds=900, interval_from="09:07")
    assert (interval.cron_expression, interval.interval_seconds) == (None, 900)
    assert patched(interval, interval_seconds=60).interval_from == "09:07"
    assert patched(interval, cron_expression="0 9 * * *") == cron


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"cron_expression": "0 9 * * *", "interval_seconds": 5}, "/cron_expression"),
        ({"cron_expression": None}, "/cron_expression"),
        ({"cron_expression": "0 9 31 2 *"}, "/cron_expression"),
        ({"interval_from": "09:07"}, "/interval_from"),
        ({"timezone": "Europe/Berln"}, "/timezone"),
        ({"backfill_limit": 3}, "/backfill_limit"),
        ({"pause_reason": "x"}, "/pause_reason"),
        ({"paused": False, "pause_reason": "x"}, "/pause_reason"),
        ({"name": None}, "/name"),
        ({"source": "\0"}, "/source"),
    ],
)
def test_a_patch_that_makes_no_sense(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidTask) as caught:
        patched(definition(), **fields)
    assert caught.value.pointer == pointer


def test_a_difference_is_about_the_meaning() -> None:
    before = definition(payload_template={"a": 1, "b": 2})
    template = msgspec.Raw(b'{ "b": 2, "a": 1 }')
    assert difference(before, msgspec.structs.replace(before, payload_template=template)) == {}
    for other in (b'{"a":true,"b":2}', b'{"a":1.0,"b":2}', b'{"a":1}'):
        after = msgspec.structs.replace(before, payload_template=msgspec.Raw(other))
        assert set(difference(before, after)) == {"payload_template"}
    found = difference(
        before, patched(before, timezone="Asia/Tokyo", retry_policy={"jitter": False})
    )
    assert set(found) == {"timezone", "retry_policy"}
    assert msgspec.json.decode(msgspec.json.encode(found["timezone"])) == {
        "from": "UTC",
        "to": "Asia/Tokyo",
    }


def test_a_view_shows_every_field_of_a_definition() -> None:
    assert set(definition_view(definition()).__struct_fields__) == set(Definition.__struct_fields__)
    view = msgspec.json.decode(msgspec.json.encode(definition_view(definition())))
    assert view["dst"] == {"gap": "fire_after", "fold": "first"}
    assert view["retry_policy"]["max_retries"] == 3


def test_a_patch_can_change_every_field_of_a_definition() -> None:
    beside = {"paused", "pause_reason", "definition_version"}
    assert set(PatchCronJob.__struct_fields__) - beside == set(PutCronJob.__struct_fields__)


def test_the_next_fire_is_told_only_while_there_is_one() -> None:
    nine = datetime(2026, 5, 2, 9, tzinfo=UTC)
    daily = definition(max_runs=2)
    view = job_view(job(daily, next_fire_at=nine + timedelta(days=1)), NOW)
    assert (view.status, view.next_fire_at) == (JobStatus.ACTIVE, nine)
    assert view.description.endswith("(UTC)")
    view = job_view(job(daily, paused_at=NOW, next_fire_at=nine), NOW)
    assert (view.status, view.next_fire_at) == (JobStatus.PAUSED, None)
    view = job_view(job(daily, runs=2), NOW)
    assert (view.status, view.next_fire_at) == (JobStatus.FINISHED, None)
    ended = definition(end_date="2026-04-01T00:00:00Z")
    assert job_view(job(ended), NOW).status is JobStatus.FINISHED


def test_every_status_and_kind_can_be_shown() -> None:
    for status in Status:
        assert run_view(run(status=status, task_id=JOB_ID)).status == status.value
    for kind in RunKind:
        assert run_view(run(kind=kind)).kind is RunKindView(kind.name.lower())


def test_what_did_not_run_says_why() -> None:
    missed = run_view(run(skipped=Skipped.MISSED, missed=7))
    assert missed.status is RunStatus.MISSED
    assert missed.reason is not None
    assert missed.reason.startswith("7 fires")
    for skipped in (Skipped.OVERLAP, Skipped.SUPERSEDED):
        view = run_view(run(skipped=skipped, status=Status.CANCELLED))
        assert view.status is RunStatus.SKIPPED
        assert view.reason
    assert run_view(run(status=Status.READY)).reason is None


def test_the_reference_has_every_field_and_call() -> None:
    text = (Path(__file__).parents[3] / "docs/reference/api.md").read_text()
    section = text.partition("## Recurring jobs")[2].partition("\n## ")[0]
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`[^`\n]+`", section))))
    fields = {*PutCronJob.__struct_fields__, *PatchCronJob.__struct_fields__}
    as_for_tasks = {"target", "callback_url", "callback_method"}
    assert fields - as_for_tasks <= words
    calls = set(re.findall(r"`([A-Z]+ /[^` ]*)`", section.replace("{name}", "{ref}")))
    served = {
        f"{method} {route.path_format.removeprefix('/api/v1')}"
        for route in router.routes
        if isinstance(route, HTTPRoute)
        for method in route.methods
    }
    assert calls == {call for call in served if call.split()[0] not in ("HEAD", "OPTIONS")}


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_cursor_goes_there_and_back(cursor: datetime) -> None:
    assert run_cursor_of(run_cursor_view(cursor)) == cursor


@given(
    st.text()
    | st.binary(min_size=8, max_size=8).map(lambda b: msgspec.json.encode(b)[1:-2].decode())
)
def test_no_text_breaks_a_cursor(text: str) -> None:
    with contextlib.suppress(InvalidTask):
        assert isinstance(run_cursor_of(text), datetime)


@given(st.text(max_size=40))
def test_no_expression_breaks_the_checks(text: str) -> None:
    with contextlib.suppress(InvalidTask):
        definition(cron_expression=text)
    with contextlib.suppress(InvalidTask):
        definition(timezone=text)
    with contextlib.suppress(InvalidTask):
        definition(cron_expression=None, interval_seconds=60, interval_from=text)
