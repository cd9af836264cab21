"""Processes of one command that are scraped together: each answers on a socket in one folder.

Whichever is asked answers for all of them. A label says which process a series is of, so that sums
stay right, and what every process has (`process_*`, `python_*`) stays apart.
"""

import http.client
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

LABEL = "process"
SUFFIX = ".sock"
ANSWER_SECONDS = 2.0
MOST_BYTES = 16 * 1024 * 1024


class SiblingAnswer(NamedTuple):
    """What another process has answered; status 0: it has not."""

    name: str
    status: int
    body: bytes


class Siblings:
    """The other processes of a folder, as seen by the one whose socket is `own`."""

    def __init__(self, own: Path) -> None:
        self.own = own

    @property
    def name(self) -> str:
        return self.own.stem

    def ask(self, path: str) -> list[SiblingAnswer]:
        """All of them at once, each for a moment only."""
        others = sorted(
            each for each in self.own.parent.glob(f"*{SUFFIX}") if each.name != self.own.name
        )
        if not others:
            return []
        with ThreadPoolExecutor(len(others), "siblings") as pool:
            return list(pool.map(lambda each: _asked(each, path), others))

    def text(self, own: CollectorRegistry, accept: str) -> tuple[bytes, str]:
        """What all of them count, in the format that `accept` asks for, and its media type."""
        told = {each.name: each.body for each in self.ask("/metrics") if each.status == 200}
        told[self.name] = generate_latest(own)  # read back like the others, or names would differ
        registry = CollectorRegistry()
        registry.register(
            _Merged(
                {
                    name: text_string_to_metric_families(text.decode())
                    for name, text in sorted(told.items())
                }
            )
        )
        encode, media_type = choose_encoder(accept)
        return encode(registry), media_type


class _Merged(Collector):
    """Families of several processes, each family once."""

    def __init__(self, told: dict[str, Iterable[Metric]]) -> None:
        self._families: dict[str, Metric] = {}
        for process, families in told.items():
            for family in families:
                self._add(process, family)

    def _add(self, process: str, family: Metric) -> None:
        known = self._families.get(family.name)
        if known is None:
            known = Metric(family.name, family.documentation, family.type)
            self._families[family.name] = known
        for sample in family.samples:
            known.add_sample(sample.name, {LABEL: process, **sample.labels}, sample.value)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families.values())


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _asked(sibling: Path, path: str) -> SiblingAnswer:
    connection = _UnixConnection(sibling)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return SiblingAnswer(sibling.stem, answer.status, answer.read(MOST_BYTES))
    except (OSError, http.client.HTTPException):
        return SiblingAnswer(sibling.stem, 0, b"")  # it ends, or starts
    finally:
        connection.close()
