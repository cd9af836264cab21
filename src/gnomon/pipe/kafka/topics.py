"""The topics of a pipe. A gateway makes those that are missing; workers only use them."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are public
    AdminClient,
    ConfigResource,
)
from confluent_kafka.cimpl import NewTopic

from gnomon.pipe.meeting.frames import LARGEST_MESSAGE, VERSION
from gnomon.settings import PipeSettings

MOST_BYTES = LARGEST_MESSAGE + (1 << 20)  # of a message, with what Kafka adds
_SIZE = "max.message.bytes"
FORBIDDEN = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)
_DEFAULT_REPLICATION = -1  # as the broker has it
# What lies here is worthless a moment later: as little of it is kept as Kafka allows.
_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "60000",
    "retention.bytes": str(256 << 20),
    "segment.ms": "60000",
    "segment.bytes": str(64 << 20),
    _SIZE: str(MOST_BYTES),
}


class PipeTopics:
    """Their names."""

    def __init__(self, namespace: str) -> None:
        self.calls = f"{namespace}.{VERSION}.calls"
        self.answers = f"{namespace}.{VERSION}.answers"
        self.beats = f"{namespace}.{VERSION}.beats"  # of one partition: all hear all

    def all(self) -> tuple[str, str, str]:
        return self.calls, self.answers, self.beats


class UnfitTopics(Exception):
    """They are not there, not yet, or not as the pipe needs them."""


def partitions_of(topic: str, settings: PipeSettings, config: dict[str, Any], *, make: bool) -> int:
    """How many partitions a topic of the pipe has. `make`: where any of them is missing, it is
    made, and the others must take large messages. Blocks; raises KafkaException, UnfitTopics."""
    admin, topics = AdminClient(config), PipeTopics(settings.namespace)
    found = _described(admin, topics, settings.silence_seconds)
    missing = [each for each in topics.all() if each not in found]
    if missing and not make:
        raise UnfitTopics("no gateway has connected to it yet: is an API process running?")
    if make:
        _check_sizes(admin, [each for each in found if each != topics.beats], settings)
    if missing:
        _make(admin, topics, missing, settings)
    return found.get(topic, settings.partitions)


def _described(admin: AdminClient, topics: PipeTopics, seconds: float) -> dict[str, int]:
    """The number of partitions of those that there are."""
    asked = admin.describe_topics(TopicCollection([*topics.all()]), request_timeout=seconds)
    found = {}
    for name, described in asked.items():
        try:
            found[name] = len(described.result().partitions)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def _check_sizes(admin: AdminClient, names: list[str], settings: PipeSettings) -> None:
    """Of topics that others have made. Where it may not be asked, large messages will show it."""
    asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    seconds = settings.silence_seconds
    found = admin.describe_configs(asked, request_timeout=seconds) if asked else {}
    for resource, described in found.items():
        try:
            most = int(described.result()[_SIZE].value)
        except KafkaException as error:
            if error.args[0].code() not in FORBIDDEN:
                raise
            continue
        if most < MOST_BYTES:
            raise UnfitTopics(
                f"the topic {resource.name} takes messages of at most {most} bytes:"
                f" set its {_SIZE} to {MOST_BYTES}"
            )


def _make(
    admin: AdminClient, topics: PipeTopics, missing: list[str], settings: PipeSettings
) -> None:
    new = [
        NewTopic(
            name,
            num_partitions=1 if name == topics.beats else settings.partitions,
            replication_factor=_DEFAULT_REPLICATION,
            config=dict(_CONFIG),
        )
        for name in missing
    ]
    for made in admin.create_topics(new, request_timeout=settings.silence_seconds).values():
        try:
            made.result()
        except KafkaException as error:  # another gateway was first
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
