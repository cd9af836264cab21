"""What handlers log is in the log of their node, with the execution that it is of."""

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import Process, Submitter, Truth, eventually

from gnomon.model.targets.target import PythonTarget

pytestmark = pytest.mark.timeout(120)

HANDLERS = """
import logging
import sys

from gnomon import Gnomon, TaskContext

app = Gnomon()
log = logging.getLogger("shop.mail")


@app.task
async def on_the_loop(payload, ctx: TaskContext):
    log.info("sending to %s", "u_1", extra={"order": 7})
    log.debug("too low")
    ctx.logger.warning("by the context")
    print("printed", file=sys.stderr)


@app.task
def in_a_thread(payload):
    log.info("from a thread")


@app.task
async def chatter(payload):
    for number in range(100_000):
        log.info("line %d", number)


class Broken(logging.Handler):
    def emit(self, record):
        raise ValueError("a handler of the user's own is broken")


@app.task
async def misconfigured(payload):
    logging.info("%d", "not a number")
    log.addHandler(Broken())
    try:
        log.info("once more")
    finally:
        log.handlers.clear()


@app.task
async def reconfigured(payload):
    logging.basicConfig(force=True, level="DEBUG", format="THEIRS %(message)s")
    log.info("their own format")
"""


class Stage:
    """Tasks for the handlers of a node, and the lines in its log."""

    def __init__(self, node: Process, submitter: Submitter, truth: Truth, log: Path) -> None:
        self._node = node
        self._submitter = submitter
        self._truth = truth
        self._log = log

    async def run(self, handler: str) -> UUID:
        (task_id,) = await self._submitter.submit(PythonTarget(handler), 1)

        async def ended() -> bool:
            running = "SELECT count(*) FROM gnomon.task WHERE state IN (0, 1)"
            return bool(await self._truth.value(running) == 0)

        await eventually(ended)
        return task_id

    def lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def documents(self, task_id: UUID) -> list[dict[str, Any]]:
        found = [msgspec.json.decode(line) for line in self.lines() if line.startswith("{")]
        return [each for each in found if each.get("task_id") == str(task_id)]


def node_of(new_node: NewProcess, folder: Path, **settings: object) -> Process:
    (folder / "logging_handlers.py").write_text(HANDLERS)
    return new_node("node", node_app="logging_handlers:app", **settings)


async def test_lines_say_which_execution_they_are_of(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    node = node_of(new_node, tmp_path)
    await node.started()
    stage = Stage(node, submitter, truth, tmp_path / "node.log")
    task_id = await stage.run("on_the_loop")
    first, second = stage.documents(task_id)
    assert {name: first[name] for name in ("event", "level", "logger", "order")} == {
        "event": "sending to u_1", "level": "info", "logger": "shop.mail", "order": 7,
    }  # fmt: skip
    assert (first["attempt"], first["tenant"], first["task_type"]) == (1, "default", "on_the_loop")
    assert (second["event"], second["level"]) == ("by the context", "warning")
    assert "printed" in stage.lines()

    task_id = await stage.run("in_a_thread")
    assert [each["event"] for each in stage.documents(task_id)] == ["from a thread"]

    task_id = await stage.run("chatter")
    found = stage.documents(task_id)
    assert 1000 < len(found) < 10_000
    left_out = sum(each.get("lines", 0) for each in found)
    printed = sum(each["event"].startswith("line ") for each in found)
    assert printed + left_out == 100_000

    await stage.run("misconfigured")
    assert any("not a number" in line for line in stage.lines())
    await stage.run("reconfigured")
    assert stage.lines().count("THEIRS their own format") == 1
    task_id = await stage.run("in_a_thread")
    assert "THEIRS from a thread" in stage.lines(), "the node lives, and logs as it was told to"


async def test_people_see_them_too_from_the_level_that_they_ask_for(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    settings = {"output_log_format": "console", "output_handler_log_level": "debug"}
    node = node_of(new_node, tmp_path, **settings)
    stage = Stage(node, submitter, truth, tmp_path / "node.log")
    task_id = await stage.run("on_the_loop")
    shown = [line for line in stage.lines() if str(task_id) in line]
    assert [re.split(r"\s+", line)[1] for line in shown] == ["[info", "[debug", "[warning"]
    assert "sending to u_1" in shown[0]
    assert "shop.mail" in shown[0]
