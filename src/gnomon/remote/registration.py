"""Makes known over HTTP what an app declares: its task types, workflows and cron jobs.

A worker with a database asks which version of an app decides; over HTTP the one that starts last
does. What a key may not do is said once, and the handlers run all the same.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import structlog

from gnomon.client.client import Client
from gnomon.client.errors import (
    ApiUnreachable,
    ClientError,
    Forbidden,
    NotFound,
    RateLimited,
    Unavailable,
)
from gnomon.client.types.administration import TypeDefaultsSpec
from gnomon.client.types.cron import CronJobEdit
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.cron import DeclaredCron
from gnomon.sdk.declaring.handler import Handler
from gnomon.sdk.workflow.workflow import Workflow

log = structlog.get_logger("gnomon.worker")

SOURCE_PREFIX = "app:"  # of the cron jobs that an app declares
_Work = Callable[[], Awaitable[None]]


class RemoteRegistration:
    """Registers an app once."""

    def __init__(self, app: Gnomon, path: str, client: Client) -> None:
        self._app = app
        self._source = f"{SOURCE_PREFIX}{path}"
        self._client = client

    async def run(self) -> bool:
        """Register what differs. What is refused is logged; False where nobody answers."""
        handlers = list(dict.fromkeys(self._app.handlers.values()))
        types = [(each.name, self._type(each)) for each in handlers]
        workflows = [(each.name, self._workflow(each)) for each in self._app.workflows.values()]
        jobs = [(each.name, self._job(each)) for each in self._app.jobs]
        try:
            await self._all("task types", types, "read and admin")
            await self._all("workflows", workflows, "operate")
            await self._all("cron jobs", jobs, "read, submit and operate")
            with contextlib.suppress(Forbidden):  # said above, if the app has any
                await self._prune()
        except (ApiUnreachable, RateLimited, Unavailable) as error:
            log.debug("the app cannot be registered yet", why=str(error))
            return False
        return True

    async def _all(self, what: str, work: Sequence[tuple[str, _Work]], roles: str) -> None:
        for name, register in work:
            try:
                await register()
            except (ApiUnreachable, RateLimited, Unavailable):
                raise
            except Forbidden as error:
                remedy = f"give its key the roles {roles}, or register them from elsewhere"
                log.warning(f"{what} are not registered", why=str(error), remedy=remedy)
                return
            except ClientError as error:
                log.warning(f"one of the {what} is not registered", name=name, why=str(error))

    def _type(self, handler: Handler[..., Any]) -> _Work:
        async def register() -> None:
            schema = handler.arguments.schema()
            said = handler.defaults.said()
            defaults = msgspec.convert(msgspec.to_builtins(said), TypeDefaultsSpec, str_keys=True)
            try:
                known = await self._client.get_task_type(handler.name)
                if known.schema == schema and known.defaults == defaults:
                    return
            except NotFound:
                pass
            await self._client.put_task_type(handler.name, schema, defaults)

        return register

    def _workflow(self, workflow: Workflow[..., Any]) -> _Work:
        async def register() -> None:
            await self._client.put_workflow(workflow.definition)  # the same again is no new version

        return register

    def _job(self, job: DeclaredCron) -> _Work:
        async def register() -> None:
            try:
                known = await self._client.get_cron_job(job.name)
            except NotFound:
                known = None
            if known is None and job.renamed_from is not None:
                await self._rename(job.renamed_from, job.name)
            if known is not None and known.source != self._source:
                who = known.source or "somebody"
                log.warning(
                    "a cron job is not registered: there is one of its name", name=job.name, by=who
                )
                return
            spec = msgspec.structs.replace(job.spec, source=self._source)
            await self._client.put_cron_job(job.name, spec)

        return register

    async def _rename(self, former: str, name: str) -> None:
        with contextlib.suppress(NotFound):
            old = await self._client.get_cron_job(former)
            if old.source == self._source:
                await self._client.patch_cron_job(former, CronJobEdit(name=name))

    async def _prune(self) -> None:
        """Remove the jobs that this app declared before, and no longer does."""
        kept = {job.name for job in self._app.jobs}
        async for job in self._client.list_cron_jobs(source=self._source):
            if job.name not in kept:
                await self._client.delete_cron_job(str(job.cron_job_id))
                log.info("removed a cron job that the app no longer declares", name=job.name)
