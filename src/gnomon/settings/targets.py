"""Section `targets`: the addresses that tasks may call, and how much is called at once."""

import os
import re
from typing import ClassVar

import msgspec

from gnomon.settings.queues import QueueConnection
from gnomon.settings.section import Section

_NAME = re.compile(r"[a-z0-9_-]{1,63}")


class GrpcTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files of PEM for a host that `grpcs://` targets call. Each is read when a connection is
    made."""

    ca_file: str | None = None  # authorities of its certificate; None: those of the system
    certificate_file: str | None = None  # by which it knows the caller
    key_file: str | None = None
    tenants: tuple[str, ...] = ("default",)  # whose calls use them; "*": of all

    def is_for(self, tenant_id: str) -> bool:
        return tenant_id in self.tenants or "*" in self.tenants


class TargetSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "targets"

    threads: int = 32  # for handlers that are not async
    processes: int | None = None  # for handlers with process=True; None: one for each core
    quarantine_processes: int = 4  # children of a node for tasks that may have killed one
    webhook_secret: str | None = None  # whsec_...; the first one of the tenant `default`
    connections_per_host: int = 1000
    allow: tuple[str, ...] = ()  # private networks that webhooks may reach, as CIDR
    # Host and port -> the TLS of gRPC calls to it
    grpc_tls: dict[str, GrpcTls] = msgspec.field(default_factory=dict)
    # Name -> the connection that `queue://name/topic` publishes by
    queues: dict[str, QueueConnection] = msgspec.field(default_factory=dict)
    max_feed_backlog: int = 1_000_000  # outcomes that wait for a feed; over it, a feed has a gap

    def __post_init__(self) -> None:
        self.require_at_least_one(
            "threads", "quarantine_processes", "connections_per_host", "max_feed_backlog"
        )
        self.require(
            "processes", "be at least 1", holds=self.processes is None or self.processes > 0
        )
        self.require_networks("allow")
        self.require(
            "grpc_tls",
            "name hosts with their port, as in pay.example.com:443, and for a client certificate "
            "both certificate_file and key_file",
            holds=all(map(_is_tls, self.grpc_tls, self.grpc_tls.values())),
        )
        for name, connection in self.queues.items():
            mistake = connection.mistake()
            self.require(f"queues.{name}", mistake or "", holds=mistake is None)
            rule = "have a name of up to 63 small letters, digits, - and _"
            self.require(f"queues.{name}", rule, holds=_NAME.fullmatch(name) is not None)

    @property
    def most_processes(self) -> int:
        """How many children run handlers with process=True."""
        return self.processes or os.cpu_count() or 1


def _is_tls(host: str, files: GrpcTls) -> bool:
    name, _, port = host.rpartition(":")
    paired = (files.certificate_file is None) == (files.key_file is None)
    return bool(name) and port.isdigit() and paired
