"""A field of a task is named where CONTRIBUTING says, and in the code that it is for."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.template_sample import EVERY_FIELD, UNCHANGEABLE

from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.api.cron.views import definition_view
from gnomon.api.tasks.schemas import TemplateView
from gnomon.api.tasks.views import new_view
from gnomon.model.tasks.task import (
    TEMPLATE_FIELDS,
    TaskTemplate,
    template_fields,
)
from gnomon.usecases.cron.cron_requests import CreateCronJob, PatchCronJob
from gnomon.usecases.cron.definitions import definition_of, edit_of
from gnomon.usecases.tasks.change_task import patch_of
from gnomon.usecases.tasks.submit import submission_of
from gnomon.usecases.tasks.task_requests import PatchTask, SubmitTask

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gnomon"
FIELD = "preemptible"  # stands for all: no other thing has this name
# The code that a field is for: here what preemption does.
ACTS = ("node/", "model/insight/explanation.py")
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BY = Principal(tenant_id="default", name=None, roles=TENANT_ROLES)


def listed() -> set[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Add a field to a task\n")[2].partition("\n## ")[0]
    return {path for path in re.findall(r"`([\w/]+\.(?:py|sql))`", section) if "tests/" not in path}


def test_a_field_is_named_where_contributing_says() -> None:
    named = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*")
        if path.suffix in (".py", ".sql")
        and "migrations" not in path.parts
        and re.search(rf"\b{FIELD}\b", path.read_text())
    }
    assert {path for path in named if not path.startswith(ACTS)} == listed()


def test_the_sample_has_another_value_than_the_default_in_every_field() -> None:
    assert tuple(EVERY_FIELD) == TEMPLATE_FIELDS
    plain = template_fields(TaskTemplate(task_type="", target=EVERY_FIELD["target"]))
    same = {name for name in TEMPLATE_FIELDS if plain[name] == EVERY_FIELD[name]}
    assert same == {"target"}


BODY: dict[str, Any] = msgspec.json.decode(
    msgspec.json.encode(EVERY_FIELD | {"priority": EVERY_FIELD["priority"].name})
)
SCHEDULE = {"name": "n", "cron_expression": "0 9 * * *"}


def test_every_field_comes_in_and_is_shown() -> None:
    new = submission_of(msgspec.convert(BODY, SubmitTask), BY, NOW, None, 1000)
    assert template_fields(new) == EVERY_FIELD
    assert TemplateView.__struct_fields__ == TEMPLATE_FIELDS
    assert_shown(new_view(new, new.due_at))


def test_every_field_of_a_cron_job_comes_in_and_is_shown() -> None:
    job = definition_of(msgspec.convert(BODY | SCHEDULE, CreateCronJob), "n", 1000)
    assert template_fields(job) == EVERY_FIELD
    assert_shown(definition_view(job))


def assert_shown(shown: TemplateView) -> None:
    view = msgspec.json.decode(msgspec.json.encode(shown))
    for name in TEMPLATE_FIELDS:
        if name == "retry_policy":  # with its defaults written out
            assert view[name].items() >= BODY[name].items()
        else:
            assert view[name] == BODY[name]


@pytest.mark.parametrize("name", [name for name in TEMPLATE_FIELDS if name not in UNCHANGEABLE])
def test_every_field_can_be_changed(name: str) -> None:
    patch = patch_of(msgspec.convert({name: BODY[name]}, PatchTask), NOW, 1000)
    assert getattr(patch, name) == EVERY_FIELD[name]
    given = {
        field for field in patch.__struct_fields__ if getattr(patch, field) is not msgspec.UNSET
    }
    assert given == {name}


@pytest.mark.parametrize("name", TEMPLATE_FIELDS)
def test_every_field_of_a_cron_job_can_be_changed(name: str) -> None:
    plain = {"task_type": "t", "callback_url": "http://127.0.0.1/", **SCHEDULE}
    job = definition_of(msgspec.convert(plain, CreateCronJob), "n", 1000)
    changed = edit_of(msgspec.convert({name: BODY[name]}, PatchCronJob), 1000)(job)
    assert changed == msgspec.structs.replace(job, **{name: EVERY_FIELD[name]})
