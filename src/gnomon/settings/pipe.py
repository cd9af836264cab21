"""Section `pipe`: the broker through which remote workers and gateways meet."""

import re
from enum import StrEnum
from ipaddress import ip_address
from typing import ClassVar
from urllib.parse import SplitResult, unquote, urlsplit

from gnomon.settings.queues import SASL
from gnomon.settings.section import Section

_NAMESPACE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


class MeetingPlace(StrEnum):
    """The brokers. The name is that of the extra with its client."""

    REDIS = "redis"
    RABBITMQ = "rabbitmq"
    KAFKA = "kafka"

    @property
    def label(self) -> str:
        """As people write it."""
        return _LABELS[self]

    @property
    def client(self) -> str:
        """The module of its client."""
        return _CLIENTS[self]

    @property
    def chore(self) -> str:
        """The chore that reaches workers through it."""
        return f"{self}-pipe"


_LABELS = {
    MeetingPlace.REDIS: "Redis",
    MeetingPlace.RABBITMQ: "RabbitMQ",
    MeetingPlace.KAFKA: "Kafka",
}
_CLIENTS = {
    MeetingPlace.REDIS: "redis",
    MeetingPlace.RABBITMQ: "aio_pika",
    MeetingPlace.KAFKA: "confluent_kafka",
}
_SCHEMES = {
    "redis": MeetingPlace.REDIS,
    "rediss": MeetingPlace.REDIS,
    "amqp": MeetingPlace.RABBITMQ,
    "amqps": MeetingPlace.RABBITMQ,
    "kafka": MeetingPlace.KAFKA,
    "kafkas": MeetingPlace.KAFKA,
}


class PipeSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "pipe"

    url: str | None = None  # of the broker, with user and password where it has any
    ca_file: str | None = None  # of PEM; None: the authorities of the system
    certificate_file: str | None = None  # by which the server knows this process
    key_file: str | None = None
    sasl_mechanism: str = "PLAIN"  # of Kafka, where the url has a user
    namespace: str = "gnomon"  # how the names of all channels begin
    partitions: int = 12  # of topics of Kafka that an API process makes
    silence_seconds: float = 5.0  # without an answer for so long, the server is taken for away

    def __post_init__(self) -> None:
        rule = f"start with one of {', '.join(f'{each}://' for each in _SCHEMES)} and name a host"
        self.require("url", rule, holds=self.url is None or _is_url(self.url))
        both = (self.certificate_file is None) == (self.key_file is None)
        self.require("key_file", "be set with certificate_file, and not without", holds=both)
        known = self.sasl_mechanism in SASL
        self.require("sasl_mechanism", f"be one of {', '.join(SASL)}", holds=known)
        named = _NAMESPACE.fullmatch(self.namespace) is not None
        self.require("namespace", "have up to 100 letters, digits and _ . : -", holds=named)
        of_topics = self.url is None or self.place is not MeetingPlace.KAFKA
        plain = of_topics or ":" not in self.namespace
        self.require("namespace", "have no : where the pipe is Kafka", holds=plain)
        self.require("partitions", "be between 1 and 1000", holds=1 <= self.partitions <= 1000)
        rule = "be between 1 and 60"
        self.require("silence_seconds", rule, holds=1 <= self.silence_seconds <= 60)

    @property
    def place(self) -> MeetingPlace:
        """The broker; of settings with a url."""
        return _SCHEMES[urlsplit(self.url or "").scheme]

    @property
    def password(self) -> str | None:
        """The one of the url."""
        given = urlsplit(self.url or "").password
        return None if given is None else unquote(given)

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, as far as its URL says."""
        return all(_is_loopback(_split(each).hostname or "") for each in self._servers)

    @property
    def where(self) -> str:
        """The servers, without secrets."""
        return f"{urlsplit(self.url or '').scheme}://{','.join(map(_address, self._servers))}"

    @property
    def _servers(self) -> list[str]:
        return _servers_of(urlsplit(self.url or ""))


def _servers_of(parts: SplitResult) -> list[str]:
    """Of Kafka several may be named."""
    servers = parts.netloc.rpartition("@")[2]
    is_kafka = _SCHEMES.get(parts.scheme) is MeetingPlace.KAFKA
    return servers.split(",") if is_kafka else [servers]


def _split(server: str) -> SplitResult:
    return urlsplit(f"//{server}")


def _address(server: str) -> str:
    parts = _split(server)
    return f"{parts.hostname}{'' if parts.port is None else f':{parts.port}'}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        servers = [_split(each) for each in _servers_of(parts)]
        return parts.scheme in _SCHEMES and all(
            each.hostname and each.port != 0 for each in servers
        )
    except ValueError:
        return False
