"""A client of the HTTP API: one method for each operation, JSON documents in and out."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import msgspec
import yarl

from gnomon.client.errors import ApiProblem, ApiUnreachable, InvalidField

Json = dict[str, Any]

TIMEOUT_SECONDS = 30.0


class _Problem(msgspec.Struct):
    """The members of a problem document that are shown."""

    title: str = ""
    detail: str = ""
    errors: list[InvalidField] = []


class Client:
    """One API server. Use it as an async context manager."""

    def __init__(
        self, url: str, *, key: str | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """`key` is an API key or a token, where the server asks for one."""
        self.url = url.rstrip("/")
        self._credentials = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=self._timeout, headers=self._credentials)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def submit(self, task: Json) -> Json:
        return await self._call("POST", "/tasks", body=task)

    async def get(self, task_id: str) -> Json:
        return await self._call("GET", f"/tasks/{_segment(task_id)}")

    async def executions(self, task_id: str) -> list[Json]:
        """All executions of a task, oldest first."""
        answer = await self._call("GET", f"/tasks/{_segment(task_id)}/executions")
        return list(answer["executions"])

    def list(self, filters: Mapping[str, str]) -> AsyncIterator[Json]:
        """Tasks, newest first; further pages are fetched as they are needed."""
        return self._pages("/tasks", "tasks", filters)

    async def action(self, task_id: str, verb: str, body: Json | None = None) -> Json:
        """`cancel`, `pause`, `resume` or `retry` a task; returns the task afterwards."""
        return await self._call("POST", f"/tasks/{_segment(task_id)}/{verb}", body=body)

    async def explain(self, task_id: str) -> Json:
        """Why the task has not run, or how it ended: a `summary` and the `facts` behind it."""
        return await self._call("GET", f"/tasks/{_segment(task_id)}/explain")

    async def delete(self, task_id: str) -> None:
        await self._call("DELETE", f"/tasks/{_segment(task_id)}")

    def dead_letters(self, filters: Mapping[str, str]) -> AsyncIterator[Json]:
        return self._pages("/dead-letters", "dead_letters", filters)

    async def dead_letter_action(self, task_id: str, verb: str) -> Json:
        """`retry`, `archive` or `discard` a dead letter."""
        return await self._call("POST", f"/dead-letters/{_segment(task_id)}/{verb}")

    async def retry_dead_letters(self, filters: Mapping[str, str]) -> Json:
        """Retries dead letters that match, a bounded number at once: repeat it while `more`."""
        return await self._call("POST", "/dead-letters/retry", body=dict(filters))

    async def create_cron_job(self, job: Json) -> Json:
        return await self._call("POST", "/cron-jobs", body=job)

    def list_cron_jobs(self, **filters: str) -> AsyncIterator[Json]:
        """Cron jobs, newest first; further pages are fetched as they are needed."""
        return self._pages("/cron-jobs", "cron_jobs", filters)

    async def get_cron_job(self, ref: str) -> Json:
        """By its id or its name, as in every method that takes a `ref`."""
        return await self._call("GET", _cron_job(ref))

    async def put_cron_job(self, name: str, job: Json, *, dry_run: bool = False) -> Json:
        """Creates or replaces the job of this name; returns what that changed, or would change."""
        query = {"dry_run": "true"} if dry_run else {}
        return await self._call("PUT", _cron_job(name), body=job, query=query)

    async def patch_cron_job(self, ref: str, patch: Json) -> Json:
        return await self._call("PATCH", _cron_job(ref), body=patch)

    async def delete_cron_job(self, ref: str) -> None:
        await self._call("DELETE", _cron_job(ref))

    async def pause_cron_job(self, ref: str, reason: str | None = None) -> Json:
        body = {} if reason is None else {"reason": reason}
        return await self._call("POST", f"{_cron_job(ref)}/pause", body=body)

    async def resume_cron_job(self, ref: str) -> Json:
        return await self._call("POST", f"{_cron_job(ref)}/resume")

    async def trigger_cron_job(self, ref: str, idempotency_key: str | None = None) -> Json:
        """Runs the job now, once for each key; returns the run."""
        return await self._call("POST", f"{_cron_job(ref)}/trigger", key=idempotency_key)

    async def backfill_cron_job(self, ref: str, body: Json) -> Json:
        """Runs the fires of a range of the past; returns those `planned` and those `existing`."""
        return await self._call("POST", f"{_cron_job(ref)}/backfill", body=body)

    def list_cron_runs(self, ref: str, **page: str) -> AsyncIterator[Json]:
        """Runs, latest fire first; further pages are fetched as they are needed."""
        return self._pages(f"{_cron_job(ref)}/runs", "runs", page)

    async def preview_cron_job(self, schedule: Json) -> Json:
        """The next `fires` of a schedule, and its `description`; nothing is stored."""
        return await self._call("POST", "/cron-jobs/preview", body=schedule)

    def events(self, filters: Mapping[str, str]) -> AsyncIterator[Json]:
        """Events, newest first; `filters` may name a `kind` and a `cron_job_id`."""
        return self._pages("/events", "events", filters)

    async def limiters(self) -> Json:
        """All `limiters`, by name, with their use."""
        return await self._call("GET", "/limiters")

    async def get_limiter(self, name: str) -> Json:
        """One limiter, with its fullest keys."""
        return await self._call("GET", f"/limiters/{_segment(name)}")

    async def put_limiter(self, name: str, limiter: Json) -> Json:
        """Creates or replaces a limiter."""
        return await self._call("PUT", f"/limiters/{_segment(name)}", body=limiter)

    async def delete_limiter(self, name: str) -> None:
        await self._call("DELETE", f"/limiters/{_segment(name)}")

    async def task_types(self) -> Json:
        """The `task_types` that have a payload schema, by name, without the schemas."""
        return await self._call("GET", "/task-types")

    async def get_task_type(self, name: str) -> Json:
        """A task type with its `schema`."""
        return await self._call("GET", f"/task-types/{_segment(name)}")

    async def put_task_type(self, name: str, schema: Any) -> Json:
        """Sets the payload schema of a task type."""
        return await self._call("PUT", f"/task-types/{_segment(name)}", body={"schema": schema})

    async def delete_task_type(self, name: str) -> None:
        await self._call("DELETE", f"/task-types/{_segment(name)}")

    async def usage(self, days: Mapping[str, str]) -> Json:
        """Usage by the day; `from` and `to` are days, both included."""
        return await self._call("GET", "/usage", query=days)

    async def ready(self) -> bool:
        """Whether the API is ready for work."""
        try:
            async with self._open("GET", f"{self.url}/readyz") as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _pages(
        self, path: str, member: str, filters: Mapping[str, str]
    ) -> AsyncIterator[Json]:
        query = dict(filters)
        while True:
            page = await self._call("GET", path, query=query)
            for item in page[member]:
                yield item
            if page.get("next_cursor") is None:
                return
            query["cursor"] = page["next_cursor"]

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] = {},
        key: str | None = None,
    ) -> Json:
        url = f"{self.url}/api/v1{path}"
        try:
            async with self._open(method, url, body=body, query=query, key=key) as response:
                return _answer(response.status, response.reason or "", await response.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiUnreachable(self.url, _reason(error)) from error

    def _open(
        self,
        method: str,
        url: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] = {},
        key: str | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        assert self._session is not None, "the client is not open"
        full = yarl.URL(url, encoded=True).update_query(query)
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"} if data is not None else {}
        if key is not None:
            headers["Idempotency-Key"] = key
        return self._session.request(
            method, full, data=data, headers=headers, allow_redirects=False
        )


def _segment(ref: str) -> str:
    return quote(ref, safe="")


def _cron_job(ref: str) -> str:
    return f"/cron-jobs/{_segment(ref)}"


def _answer(status: int, reason: str, content: bytes) -> Json:
    if status == HTTPStatus.NO_CONTENT:
        return {}
    if 200 <= status < 300:
        try:
            return msgspec.json.decode(content, type=Json)
        except msgspec.DecodeError as error:
            raise ApiProblem(
                status, "this is not Gnomon's API", "its answer is not JSON"
            ) from error
    try:
        problem = msgspec.json.decode(content, type=_Problem)
    except msgspec.DecodeError:
        raise ApiProblem(status, f"{status} {reason}".strip()) from None
    raise ApiProblem(status, problem.title or reason, problem.detail, problem.errors)


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        # asyncio's own text repeats the address.
        number = error.os_error.errno
        return os.strerror(number).lower() if number else str(error.os_error)
    return "no answer in time" if isinstance(error, TimeoutError) else str(error) or "cut off"
