"""A Django site: it submits on commit, and `manage.py gnomon_worker` runs its handlers."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.commands import clean_environment
from tests.integration.receiving import django_database
from tests.system.installing import ROOT

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

_FILES = {
    "manage.py": """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
""",
    "site_settings.py": """
import json, os
from page_settings import *
DATABASES = {"default": json.loads(os.environ["SHOP_DATABASE"])}
INSTALLED_APPS += ["mail"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
""",
    "shop/__init__.py": "",
    "shop/models.py": """
from django.db import models

class User(models.Model):
    email = models.EmailField()
""",
    "mail/__init__.py": "",
    "mail/tasks.py": """
from django.db import connection
from shop.tasks import app

@app.task(retries=0)
def lose_the_connection() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

@app.task(process=True)
def in_a_child(number: int) -> bool:
    from django.apps import apps
    return apps.ready
""",
    "shop/management/__init__.py": "",
    "shop/management/commands/__init__.py": "",
    "shop/management/commands/try_it.py": """
import json
from django.core.management.base import BaseCommand
from django.db import connection, transaction
from gnomon import TaskFailed
from mail.tasks import in_a_child, lose_the_connection
from shop.models import User
from shop.tasks import app, create_user, send_email

class Command(BaseCommand):
    def handle(self, *args, **options):
        with connection.schema_editor() as editor:
            editor.create_model(User)
        create_user("you@example.com")
        try:
            with transaction.atomic():
                create_user("nobody@example.com")
                raise RuntimeError
        except RuntimeError:
            pass
        (task,) = app.sync_client.list_tasks(task_type="send_email")
        found = {"sent": app.handle(task.task_id, send_email).result_sync(timeout="60s")}
        try:
            lose_the_connection.submit_sync().result_sync(timeout="60s")
        except TaskFailed as failed:
            found["lost"] = failed.last_error
        user = User.objects.get()
        found["again"] = send_email.submit_sync(user_id=user.pk).result_sync(timeout="60s")
        found["child"] = in_a_child.submit_sync(number=1).result_sync(timeout="60s")
        print(json.dumps(found))
""",
}


def page_files() -> dict[str, str]:
    """The two files of the page."""
    text = (ROOT / "docs" / "how-to" / "use-with-django.md").read_text()
    settings, tasks = re.findall(r"(?ms)^```python\n(.*?)^```", text)
    return {"page_settings.py": settings, "shop/tasks.py": tasks}


class Site:
    """A Django project in a folder of its own."""

    def __init__(self, folder: Path, dsn: str, **variables: str) -> None:
        for name, text in {**_FILES, **page_files()}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        self._folder = folder
        self._environment = clean_environment(
            {"SHOP_DATABASE": json.dumps(django_database(dsn)), **variables}
        )

    def run(self, command: str) -> Any:
        """What a command prints, as JSON."""
        done = subprocess.run(
            [sys.executable, "manage.py", command],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def running(self, *command: str, **variables: str) -> Iterator[None]:
        """A command beside it, from another folder; it must end when it is told to."""
        log = self._folder / "worker.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, str(self._folder / "manage.py"), *command],
                cwd="/",
                env={**self._environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        try:
            yield
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
        except BaseException as error:
            error.add_note(log.read_text())
            raise
        finally:
            process.kill()
            process.wait()


async def test_a_site_submits_on_commit_and_its_worker_has_djangos_database(
    database_dsn: str, api_url: str, tmp_path: Path
) -> None:
    site = Site(tmp_path / "site", database_dsn, GNOMON_URL=api_url)
    with site.running(
        "gnomon_worker",
        "--slots",
        "4",
        DATABASE_URL=database_dsn,
        GNOMON_TARGETS_THREADS="1",
        GNOMON_DATABASE_DATA_DIR=os.fspath(tmp_path),
    ):
        found = site.run("try_it")
    assert found["sent"] == found["again"] == "sent welcome to you@example.com"
    assert found["child"] is True
    assert "terminat" in found["lost"]
