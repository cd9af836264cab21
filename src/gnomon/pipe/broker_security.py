"""How connections to brokers are secured: the same for pipes and for `queue` targets."""

import ssl
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit


class BrokerFiles(Protocol):
    """Files of PEM that settings name."""

    @property
    def ca_file(self) -> str | None:
        """None: the authorities of the system."""

    @property
    def certificate_file(self) -> str | None:
        """By which the broker knows this process."""

    @property
    def key_file(self) -> str | None: ...


def tls_context(files: BrokerFiles) -> ssl.SSLContext:
    """Raises OSError where a file cannot be used."""
    context = ssl.create_default_context(cafile=files.ca_file)
    if files.certificate_file is not None:
        context.load_cert_chain(files.certificate_file, files.key_file)
    return context


def kafka_security(
    url: str, password: str | None, files: BrokerFiles, sasl_mechanism: str
) -> dict[str, Any]:
    """Where Kafka is and how to log in, as its client is configured. With a user there is SASL,
    with `kafkas://` TLS."""
    parts = urlsplit(url)
    user, tls = parts.username, parts.scheme == "kafkas"
    config: dict[str, Any] = {
        "bootstrap.servers": parts.netloc.rpartition("@")[2],
        "client.id": "gnomon",
        "log_level": 0,  # what happens is told by `error_cb`
        "security.protocol": ("SASL_" if user else "") + ("SSL" if tls else "PLAINTEXT"),
    }
    if user:
        config |= {
            "sasl.mechanism": sasl_mechanism,
            "sasl.username": unquote(user),
            "sasl.password": password or "",
        }
    named = {
        "ssl.ca.location": files.ca_file,
        "ssl.certificate.location": files.certificate_file,
        "ssl.key.location": files.key_file,
    }
    return config | {name: file for name, file in named.items() if tls and file is not None}
