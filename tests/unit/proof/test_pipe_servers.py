"""Campaigns say before they begin what they lack."""

import asyncio
from pathlib import Path

import pytest
from proof.campaigns import pipe_servers, zoo
from tests.kafka import jars


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without RabbitMQ and Kafka."""
    monkeypatch.setattr(pipe_servers, "RABBITMQ", "")
    monkeypatch.setattr(jars, "CLASS_PATH", tmp_path / "none")


@pytest.mark.usefixtures("bare")
def test_only_what_is_asked_for_is_missed() -> None:
    assert pipe_servers.lacking([None, "redis"]) == []
    (rabbitmq,) = pipe_servers.lacking([None, "rabbitmq", "rabbitmq"])
    assert "rabbitmq-server" in rabbitmq
    assert len(pipe_servers.lacking(["kafka", "rabbitmq"])) == 2


@pytest.mark.usefixtures("bare")
def test_the_zoo_does_not_begin_what_it_cannot_end(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["settle-without-fence", "grant-skipped"]
    assert asyncio.run(zoo.run_all(names, control=False, write=False)) == 2
    told = capsys.readouterr()
    assert "rabbitmq-server" in told.err
    assert not told.out
