"""What an app declares, made known to the server: its task types, cron jobs and workflows.

A worker does this when it starts. While workers of several versions of one app run, as in a rolling
deployment, one version decides: of those that have a living worker, the one that was first seen
last. So a new version takes over at once, an old one that is restarted changes nothing, and after a
rollback the old one decides again as soon as the last worker of the new one has left.
"""

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import structlog

from gnomon.access.principal import Principal, Role
from gnomon.cron.job import CronJob, Definition
from gnomon.model.errors import GnomonError, StoreError, TaskTypeNotFound
from gnomon.model.job_errors import CronJobNotFound
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.cron import DeclaredCron
from gnomon.sdk.declaring.handler import Handler
from gnomon.sdk.workflow.workflow import Workflow
from gnomon.store.ports.roster import AppVersion
from gnomon.store.ports.work.cron import CronFilter
from gnomon.store.postgres.cron.jobs import PostgresCronJobs
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.tasks.task_types import PostgresTaskTypes
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.usecases.admin import task_types
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.cron import cron_jobs
from gnomon.usecases.cron.cron_requests import PutCronJob
from gnomon.usecases.tasks.task_requests import TaskTypeDefaults
from gnomon.usecases.workflows import definitions
from gnomon.usecases.workflows.workflow_requests import WorkflowDefinition

log = structlog.get_logger("gnomon.worker")

SOURCE_PREFIX = "app:"  # of the cron jobs that an app declares
_PAGE = 500
_encoder = msgspec.json.Encoder(order="sorted")


class _Superseded(Exception):
    """Another version of the app decides now."""


class Stores(msgspec.Struct, frozen=True):
    """Where it is registered."""

    roster: PostgresRoster
    tasks: PostgresTasks
    jobs: PostgresCronJobs
    types: PostgresTaskTypes
    workflows: PostgresWorkflows
    rules: TenantRules


def version_of(app: Gnomon, path: str) -> AppVersion:
    """The app, and a digest of all that it declares."""
    types = [(handler.name, *_type_of(handler)) for handler in _handlers(app)]
    workflows = [each.definition for each in app.workflows.values()]
    declared = _encoder.encode([types, [(job.name, job.spec) for job in app.jobs], workflows])
    return AppVersion(path, app.tenant, hashlib.sha256(declared).hexdigest()[:16])


class Registration:
    """Registers an app, once for each time that its version comes to decide."""

    def __init__(self, app: Gnomon, version: AppVersion, stores: Stores) -> None:
        self._app = app
        self._version = version
        self._stores = stores
        self._by = Principal(
            tenant_id=app.tenant, name=f"worker {version.name}", roles=frozenset({Role.ADMIN})
        )
        self._done = False
        self._waits = False

    @property
    def source(self) -> str:
        return f"{SOURCE_PREFIX}{self._version.name}"

    async def run_once(self) -> None:
        """Register what is not registered yet, if this version decides. What is refused is logged;
        the handlers run all the same. Raises StoreError."""
        try:
            await self._register()
        except _Superseded:
            if not self._waits:
                log.info(
                    "another version of this app decides on what it declares",
                    app=self._version.name,
                )
            self._done, self._waits = False, True
            return
        self._done, self._waits = True, False

    async def _register(self) -> None:
        if not await self._stores.roster.decides(self._version):
            raise _Superseded
        if self._done:
            return
        for handler in _handlers(self._app):
            await self._tolerant("task type", handler.name, self._put_type(handler))
        for workflow in self._app.workflows.values():
            await self._tolerant("workflow", workflow.name, self._put_workflow(workflow))
        for job in self._app.jobs:
            await self._tolerant("cron job", job.name, self._put_job(job))
        await self._prune()

    async def _tolerant(self, what: str, name: str, work: Any) -> None:
        try:
            await work
        except StoreError:
            raise
        except GnomonError as error:
            log.warning(f"a {what} could not be registered", name=name, why=str(error))

    @asynccontextmanager
    async def _deciding(self) -> AsyncIterator[PostgresTaskChange]:
        """A change, in which no other version changes anything. Raises _Superseded."""
        async with self._stores.tasks.change(self._app.tenant) as change:
            await change.cron.hold_app(self._version)
            # By another connection, outside the tenant's wall, and once it is held.
            if not await self._stores.roster.decides(self._version):
                raise _Superseded
            yield change

    async def _put_type(self, handler: Handler[..., Any]) -> None:
        schema, defaults = _type_of(handler)
        types, by = self._stores.types, self._by
        try:
            known = await types.get(by.tenant_id, handler.name)
        except TaskTypeNotFound:
            known = None
        kept = msgspec.json.encode(defaults)
        if known is not None and _same(known.schema, schema) and _same(known.defaults, kept):
            return
        await task_types.put(types, by, handler.name, schema, defaults)

    async def _put_job(self, job: DeclaredCron) -> None:
        asked = msgspec.json.decode(
            msgspec.json.encode(msgspec.structs.replace(job.spec, source=self.source)),
            type=PutCronJob,
        )
        definition = await cron_jobs.accept(self._stores.rules, self._by, asked, job.name)
        there = await self._found(job.name)
        if there is not None and there.definition.source != self.source:
            who = there.definition.source or there.created_by or "somebody"
            raise GnomonError(f"there is a cron job of this name that {who} made; rename one")
        old = None if job.renamed_from is None else await self._found(job.renamed_from)
        async with self._deciding() as change:
            if there is None and old is not None and old.definition.source == self.source:
                await change.cron.patch(str(old.id), _renamed(job.name))
            await cron_jobs.put(change, self._by, definition)

    async def _put_workflow(self, workflow: Workflow[..., Any]) -> None:
        """The next version, unless the newest says the same. One that the app no longer declares
        stays: runs of it go on, and people may have started them by name."""
        body = msgspec.json.encode(workflow.definition)
        asked = msgspec.json.decode(body, type=WorkflowDefinition)
        stores = self._stores
        await definitions.put(stores.workflows, stores.rules, self._by, asked, body)

    async def _found(self, name: str) -> CronJob | None:
        try:
            return await self._stores.jobs.get(self._app.tenant, name)
        except CronJobNotFound:
            return None

    async def _prune(self) -> None:
        """Remove the jobs that this app declared before, and no longer does."""
        kept = {job.name for job in self._app.jobs}
        cursor = None
        while True:
            chosen = CronFilter(source=self.source)
            page = await self._stores.jobs.list(self._app.tenant, chosen, cursor, _PAGE)
            for job in page.jobs:
                if job.definition.name not in kept:
                    async with self._deciding() as change:
                        await cron_jobs.delete(change, self._by, str(job.id))
                    log.info(
                        "removed a cron job that the app no longer declares",
                        name=job.definition.name,
                    )
            if page.next_cursor is None:
                return
            cursor = page.next_cursor


def _handlers(app: Gnomon) -> Iterator[Handler[..., Any]]:
    """Each once, whatever its aliases."""
    return iter(dict.fromkeys(app.handlers.values()))


def _type_of(handler: Handler[..., Any]) -> tuple[bytes, TaskTypeDefaults]:
    said = handler.defaults.said()
    if "expiry_seconds" in said:
        said["expires_after_seconds"] = said.pop("expiry_seconds")
    defaults = msgspec.json.decode(msgspec.json.encode(said), type=TaskTypeDefaults)
    return msgspec.json.encode(handler.arguments.schema()), defaults


def _same(one: bytes | None, two: bytes | None) -> bool:
    """Whether two documents say the same; none says nothing."""
    return bool(msgspec.json.decode(one or b"{}") == msgspec.json.decode(two or b"{}"))


def _renamed(name: str) -> Any:
    def edit(definition: Definition) -> Definition:
        return msgspec.structs.replace(definition, name=name)

    return edit
