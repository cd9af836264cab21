"""What a worker does beyond a node: it registers its app, and names what waits for no handler."""

from collections.abc import Iterable

import structlog

from gnomon.chores import Service, every
from gnomon.clock import Clock
from gnomon.model.fleet.pool import in_few_words
from gnomon.model.tasks.task import TaskKey
from gnomon.sdk.app import Gnomon
from gnomon.settings import Settings
from gnomon.store.guards import Guards
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.cron.jobs import PostgresCronJobs
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.pools import unhandled
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.tasks.task_store import OnInserted, PostgresTasks
from gnomon.store.postgres.tasks.task_types import PostgresTaskTypes
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.store.tenant_cache import TenantCache
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.registration import Registration, Stores, version_of

log = structlog.get_logger("gnomon.worker")

REGISTER_SECONDS = 5.0


class _NoHints:
    """Jobs that fire within a moment are found by the scan."""

    def due(self, entries: Iterable[Entry]) -> None: ...

    def cancel(self, key: TaskKey) -> None: ...
    def steps(self) -> None: ...


class AppRegistrar:
    """Registers the app of a worker for as long as it runs."""

    def __init__(
        self,
        app: Gnomon,
        settings: Settings,
        database: Database,
        directory: TenantCache,
        clock: Clock,
        on_inserted: OnInserted,
    ) -> None:
        self.version = version_of(app, settings.node.app or "")
        self._app = app
        self._database = database
        self._clock = clock
        kept = settings.api.idempotency_seconds
        guards = Guards(directory, settings.targets.allow)
        stores = Stores(
            PostgresRoster(database),
            PostgresTasks(
                database, _NoHints(), kept, directory.quotas, directory.limiters, on_inserted
            ),
            PostgresCronJobs(database),
            PostgresTaskTypes(database),
            PostgresWorkflows(database),
            TenantRules(
                clock,
                directory,
                guards,
                settings.api.max_payload_bytes,
                settings.api.max_run_nodes,
                settings.targets.queues or None,
            ),
        )
        self._registration = Registration(app, self.version, stores)
        self._looked = False

    def services(self) -> list[Service]:
        return [every("register", self.run_once, self._clock, REGISTER_SECONDS)]

    async def run_once(self) -> None:
        await self._registration.run_once()
        if not self._looked:
            await self._name_unhandled()
            self._looked = True

    async def _name_unhandled(self) -> None:
        """Tasks that wait for a handler which nobody has: perhaps it was renamed."""
        async with self._database.connection() as connection:
            found = await unhandled(connection, self._app.tenant)
        if found:
            log.warning(
                "tasks wait for handlers that no live worker has",
                task_types=in_few_words(map(str, found)),
                remedy=f"start a worker that has them; if a handler was renamed, give it "
                f'aliases=["{found[0].task_type}"]',
            )
