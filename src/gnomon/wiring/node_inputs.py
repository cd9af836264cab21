"""The inputs of a node: settings, database, callers and the like."""

import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gnomon.clock import Clock
from gnomon.node.dispatch.breaker_check import BreakerRules
from gnomon.node.run.quarantine.pool import Killer
from gnomon.node.run.targets import Callers
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.observe.events import Observer
from gnomon.settings import Settings
from gnomon.store.activity_writer import ActivityWriter
from gnomon.store.postgres.database import Database
from gnomon.store.tenant_cache import TenantCache
from gnomon.wiring.worker import AppRegistrar


class Served(NamedTuple):
    """What a process can run: webhooks, and the task types of its handlers (None: any)."""

    webhooks: bool = True
    handlers: frozenset[str] | None = None
    registers: bool = False  # the task types and cron jobs of its app


EVERYTHING = Served()


@dataclass(frozen=True)
class NodeInputs:
    """The same for every incarnation that a process has with them."""

    settings: Settings
    database: Database
    callers: Callers | None  # None: a gateway, whose workers call for themselves
    takes_suspects: Callable[[], bool]  # whether the quarantine is open
    directory: TenantCache
    clock: Clock
    emit: Observer
    rules: BreakerRules
    activity: ActivityWriter
    served: Served = EVERYTHING
    registrar: AppRegistrar | None = None  # of a worker
    killers: deque[Killer] = field(default_factory=deque)  # of the quarantine
    publisher: QueuePublisher | None = None  # None: it publishes nothing

    @property
    def name(self) -> str:
        """The node's, as people know it."""
        return self.settings.node.name or f"{socket.gethostname()}:{os.getpid()}"
