"""`gnomon workflows` against the real API."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import api_running, gnomon_here
from tests.integration.nodes import running_node
from tests.integration.workflow_calls import failing, node
from tests.terminal import in_terminal


@pytest.fixture
def here(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield tmp_path


def written(folder: Path, nodes: dict[str, Any], **fields: Any) -> str:
    file = folder / "definition.json"
    file.write_text(json.dumps({"nodes": nodes, **fields}))
    return str(file)


def run_id_of(file: str) -> str:
    return gnomon_here("workflows", "run", file, "order=o-1").out.strip()


def test_a_run_is_started_listed_and_shown_as_a_tree(here: Path) -> None:
    none = gnomon_here("workflows", "runs", "list")
    assert (none.code, none.out, none.err) == (0, "", "no runs\n")
    file = written(
        here, {"a": node(), "b": node("x", "a"), "c": node("x", "a"), "d": node("x", "b", "c")}
    )
    run_id = run_id_of(file)
    listed = gnomon_here("workflows", "runs", "list", "--status", "running")
    assert run_id in listed.out
    shown = gnomon_here("workflows", "runs", "show", run_id[:20])
    assert shown.code == 0
    assert shown.out.splitlines()[-4:] == [
        "◌ a           READY",
        "├─ · b        BLOCKED",
        "└─ · c        BLOCKED",
        "· d           BLOCKED    waits for b, c",
    ]
    assert 'input     {"order":"o-1"}' in shown.out
    document = gnomon_here("workflows", "runs", "show", run_id, "--json").json
    assert [each["node"] for each in document["nodes"]] == ["a", "b", "c", "d"]
    assert (
        gnomon_here("workflows", "runs", "list", "--json").json["workflow_runs"][0]["run_id"]
        == run_id
    )


def test_runs_are_paused_resumed_and_cancelled(here: Path) -> None:
    run_id = run_id_of(written(here, {"a": node(), "b": node("x", "a")}))
    assert gnomon_here("workflows", "runs", "pause", run_id).out == f"{run_id} is PAUSED\n"
    assert gnomon_here("workflows", "runs", "resume", run_id).out == f"{run_id} is RUNNING\n"
    cancelled = gnomon_here("workflows", "runs", "cancel", run_id, "--json").json
    assert cancelled["workflow_runs"][0]["status"] in ("CANCELLING", "CANCELLED")
    refused = gnomon_here("workflows", "runs", "pause", run_id)
    assert refused.code == 1
    assert run_id in refused.err


def test_a_workflow_is_applied_shown_started_and_removed(here: Path) -> None:
    assert gnomon_here("workflows", "list").err.startswith("no workflows")
    file = written(here, {"a": node(), "b": node("{{run.input.order}}", "a")}, name="order")
    assert gnomon_here("workflows", "apply", file).out == "order is at version 1\n"
    assert gnomon_here("workflows", "apply", file).out == "order is at version 1\n"
    assert gnomon_here("workflows", "list").out.splitlines()[1].split()[:2] == ["order", "1"]
    shown = gnomon_here("workflows", "show", "order")
    assert [line.split() for line in shown.out.splitlines()[-2:]] == [
        ["a", "echo"],
        ["b", "echo", "a"],
    ]
    (here / "again.json").write_text(gnomon_here("workflows", "show", "order", "--json").out)
    assert gnomon_here("workflows", "apply", "again.json").out == "order is at version 1\n"
    arguments = ("workflows", "start", "order", "order=o-1", "--idempotency-key", "o-1")
    run_ids = [gnomon_here(*arguments).out.strip() for _ in range(2)]
    assert run_ids[0] == run_ids[1]
    listed = gnomon_here("workflows", "runs", "list", "--workflow", "order", "--json").json
    assert [(each["workflow"], each["version"]) for each in listed["workflow_runs"]] == [
        ("order", 1)
    ]
    assert gnomon_here("workflows", "rm", "order", "--yes").out == "order is removed\n"
    assert gnomon_here("workflows", "start", "order").code == 1


def test_a_cycle_is_named(here: Path) -> None:
    file = written(here, {"a": node("x", "b"), "b": node("x", "a")})
    refused = gnomon_here("workflows", "run", file)
    assert refused.code == 1
    assert "a -> b -> a" in refused.err or "b -> a -> b" in refused.err


def test_watching_ends_with_the_run(here: Path, database_dsn: str) -> None:
    good = written(here, {"a": node(), "b": node("x", "a")})

    async def watched(*arguments: str) -> Any:
        async with running_node(database_dsn):
            return await asyncio.to_thread(gnomon_here, *arguments)

    done = asyncio.run(watched("workflows", "run", good, "--watch"))
    assert done.code == 0
    assert [line.split()[:3] for line in done.out.splitlines()[-2:]] == [
        ["✓", "a", "COMPLETED"],
        ["✓", "b", "COMPLETED"],
    ]
    broken = written(here, {"a": failing(), "b": node("x", "a")})
    failed = asyncio.run(watched("workflows", "run", broken, "--watch"))
    assert failed.code == 1
    assert "status    FAILED" in failed.out


def test_a_terminal_shows_the_tree_and_ctrl_c_leaves_the_run(here: Path) -> None:
    run_id = run_id_of(written(here, {"a": node(), "b": node("x", "a")}))
    env = {"GNOMON_URL": os.environ["GNOMON_URL"]}
    seen = in_terminal(
        "workflows", "runs", "show", run_id, "--watch", cwd=here, env=env, interrupt_after="BLOCKED"
    )
    assert seen.code == 130
    assert "1 READY, 1 BLOCKED" in seen.out
    assert "the run goes on" in seen.out
