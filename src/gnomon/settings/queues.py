"""Connections to brokers, for `queue` targets: a table of `targets.queues` each."""

from urllib.parse import urlsplit

import msgspec

SCHEMES = ("redis", "rediss", "amqp", "amqps", "kafka", "kafkas")
SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class QueueConnection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where messages go, and whose. Files are read when a connection is made, and again for every
    message: one that was replaced is used by the next."""

    url: str  # of the broker, with a user and without a password
    password_file: str | None = None
    ca_file: str | None = None  # of PEM; None: the authorities of the system
    certificate_file: str | None = None  # by which the broker knows the node
    key_file: str | None = None
    max_length: int | None = None  # of a stream of Redis, about; None: it grows
    create_streams: bool = True  # of Redis; else a topic that is not there is a mistake
    exchange: str = ""  # of RabbitMQ; else the default one, where a topic is the name of a queue
    sasl_mechanism: str = "PLAIN"  # of Kafka, where the url has a user
    # Tenant -> topics that it may publish to, or how their names begin and *; "*": all tenants
    tenants: dict[str, tuple[str, ...]] = msgspec.field(default_factory=lambda: {"default": ("*",)})

    def is_for(self, tenant_id: str, topic: str) -> bool:
        return any(
            topic.startswith(each[:-1]) if each.endswith("*") else topic == each
            for each in self.topics_of(tenant_id)
        )

    def topics_of(self, tenant_id: str) -> tuple[str, ...]:
        """Those that a tenant may publish to, or how their names begin and *."""
        return (*self.tenants.get(tenant_id, ()), *self.tenants.get("*", ()))

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]

    def mistake(self) -> str | None:
        """What is wrong with it. Never a value: it may be a secret."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return "have a url that can be read"
        if parts.scheme not in SCHEMES or not parts.hostname:
            return f"have a url that starts with one of {', '.join(SCHEMES)} and names a host"
        if parts.password is not None:
            return "have no password in its url; name a file with it in password_file"
        if parts.username and self.password_file is None and parts.scheme in ("kafka", "kafkas"):
            return "name a file with the password of its user in password_file"
        if (self.certificate_file is None) != (self.key_file is None):
            return "have both certificate_file and key_file, or none"
        if self.sasl_mechanism not in SASL:
            return f"have a sasl_mechanism of {', '.join(SASL)}"
        if self.max_length is not None and self.max_length < 1:
            return "have a max_length of at least 1"
        return None
