"""The brokers that remote workers can be behind, and what can be done to each. All of them are
started without data each time."""

import shutil
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from confluent_kafka.cimpl import NewPartitions
from tests.brokers import RABBITMQ, RabbitServer, ValkeyServer
from tests.kafka import jars
from tests.kafka.server import KafkaServer

from gnomon.pipe.kafka.topics import PipeTopics

PipeName = Literal["redis", "rabbitmq", "kafka"]
_MEMORY = "set_vm_memory_high_watermark"
_NO_RABBITMQ = "RabbitMQ is not installed (Debian: apt-get install rabbitmq-server)"


def lacking(pipes: Iterable[PipeName | None]) -> list[str]:
    """Why campaigns behind these cannot be run here."""
    pipes = set(pipes)
    found = [] if RABBITMQ or "rabbitmq" not in pipes else [_NO_RABBITMQ]
    no_kafka = jars.missing() if "kafka" in pipes else None
    return found if no_kafka is None else [*found, no_kafka]


class PipeServer(Protocol):
    """A broker. `full` is what it has too much of: memory that is used, or partitions."""

    def place_of(self, worker: str) -> int:
        """The port that the proxy of a worker leads to."""

    def url(self, port: int | None = None) -> str:
        """Its address, by way of this port."""

    def start(self, proxies: Mapping[str, int]) -> None:
        """The ports of the proxies, by worker."""

    def kill(self) -> None: ...

    def restart(self) -> None:
        """Start it after a kill, empty."""

    def send(self, number: signal.Signals) -> None: ...

    def cut(self) -> int | None:
        """Close all connections to it; gives how many. None: it cannot, and proxies must do it."""

    def fill(self, *, full: bool) -> None: ...


class RedisPipeServer:
    """Valkey. Where it is full, it refuses to store anything."""

    def __init__(self, folder: Path) -> None:
        self._server = ValkeyServer(folder, kept=False)

    def place_of(self, _worker: str) -> int:
        return self._server.port

    def url(self, port: int | None = None) -> str:
        return f"redis://127.0.0.1:{port or self._server.port}"

    def start(self, _proxies: Mapping[str, int]) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def restart(self) -> None:
        self._server.start()

    def send(self, number: signal.Signals) -> None:
        self._server.send(number)

    def cut(self) -> int:
        kill = self._server.client.client_kill_filter
        return sum(int(kill(_type=kind, skipme=True)) for kind in ("pubsub", "normal"))

    def fill(self, *, full: bool) -> None:
        self._server.client.config_set("maxmemory-policy", "noeviction")
        self._server.client.config_set("maxmemory", 1 if full else 0)


class RabbitPipeServer:
    """RabbitMQ. Where it is full, its memory alarm is on."""

    def __init__(self, folder: Path) -> None:
        self._server = RabbitServer(folder)
        self._data = folder / "data"

    def place_of(self, _worker: str) -> int:
        return self._server.port

    def url(self, port: int | None = None) -> str:
        own = self._server.port
        return self._server.pipe_url.replace(f":{own}/", f":{port or own}/")

    def start(self, _proxies: Mapping[str, int]) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.stop()

    def restart(self) -> None:
        shutil.rmtree(self._data)
        self._server.start()

    def send(self, number: signal.Signals) -> None:
        self._server.send(number)

    def cut(self) -> None:
        return None

    def fill(self, *, full: bool) -> None:
        self._server.control(_MEMORY, *(("absolute", "1") if full else ("0.4",)))


class KafkaPipeServer:
    """Kafka. Instead of being full, its topics get more partitions."""

    def __init__(self, folder: Path, workers: tuple[str, ...], namespace: str) -> None:
        self._server = KafkaServer(folder, listeners=workers)
        self._topics = PipeTopics(namespace)

    def place_of(self, worker: str) -> int:
        return self._server.ports[worker]

    def url(self, port: int | None = None) -> str:
        return f"kafka://127.0.0.1:{port or self._server.ports['PLAINTEXT']}"

    def start(self, proxies: Mapping[str, int]) -> None:
        self._server.advertise(proxies)
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def restart(self) -> None:
        self._server.restart_empty()

    def send(self, number: signal.Signals) -> None:
        self._server.send(number)

    def cut(self) -> None:
        return None

    def fill(self, *, full: bool) -> None:
        if not full:
            return
        known = self._server.admin.list_topics(timeout=5.0).topics
        grown = [
            NewPartitions(name, len(known[name].partitions) + 3)
            for name in (self._topics.calls, self._topics.answers)
            if name in known
        ]
        for made in self._server.admin.create_partitions(grown).values():
            made.result(10)


def make_pipe_server(name: PipeName, folder: Path, workers: tuple[str, ...]) -> PipeServer:
    match name:
        case "redis":
            return RedisPipeServer(folder)
        case "rabbitmq":
            return RabbitPipeServer(folder)
        case "kafka":
            return KafkaPipeServer(folder, workers, "gnomon")
