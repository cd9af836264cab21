"""Compares the jobs of a file with those of the server: what a sync would change.

The server says itself what a definition would change in a job of its own (a PUT as a dry run), so
that a default it fills in never looks like a difference. Here is decided which job is meant.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from gnomon.cli.cron.file import BadFile, Declaration, Declared
from gnomon.client.errors import ApiProblem

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient

Json = dict[str, Any]


class JobChange(StrEnum):
    """What a sync does with a job, in the words of the API where it has them."""

    CREATED = "created"
    CHANGED = "changed"
    RENAMED = "renamed"
    REMOVED = "removed"
    LEFT = "left alone"
    UNCHANGED = "unchanged"


class SyncStep(msgspec.Struct, frozen=True, kw_only=True):
    """One job, and what the sync does about it."""

    change: JobChange
    name: str
    fields: Mapping[str, Json] = {}  # what changes, from and to
    document: Json = {}  # the job as declared; empty where it is not in the file
    job_id: str = ""  # of the job that is renamed or removed
    renamed_from: str | None = None

    @property
    def told(self) -> str:
        """The step in words for people."""
        match self.change:
            case JobChange.RENAMED:
                return f"to be renamed, from {self.renamed_from}"
            case JobChange.LEFT:
                return "not in the file; --prune removes it"
            case _:
                return f"to be {self.change}"

    @property
    def differences(self) -> Iterator[tuple[str, Any, Any]]:
        """Each place that changes, from and to; of an object only the members that do."""
        for field, change in sorted(self.fields.items()):
            yield from _differences(field, change["from"], change["to"])


def _differences(place: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from _differences(f"{place}.{name}", before.get(name), after.get(name))
    elif before != after:
        yield place, before, after


class Verb(StrEnum):
    """The requests that change something, in the order in which they are made."""

    RENAME = "rename"
    PUT = "put"
    REMOVE = "remove"


class Act(msgspec.Struct, frozen=True):
    """One request."""

    verb: Verb
    step: SyncStep

    @property
    def title(self) -> str:
        step = self.step
        match self.verb:
            case Verb.RENAME:
                return f"rename {step.renamed_from} to {step.name}"
            case Verb.REMOVE:
                return f"remove {step.name}"
            case Verb.PUT:
                return f"{'create' if step.change is JobChange.CREATED else 'change'} {step.name}"

    async def carry_out(self, client: "DocumentClient") -> None:
        step = self.step
        match self.verb:
            case Verb.RENAME:
                await client.patch_cron_job(step.job_id, {"name": step.name})
            case Verb.PUT:
                await client.put_cron_job(step.name, step.document)
            case Verb.REMOVE:
                await client.delete_cron_job(step.job_id)


def acts_of(steps: Sequence[SyncStep]) -> list[Act]:
    """Renames first, so that a definition finds its job; removals last, when all else is well."""
    renamed = [step for step in steps if step.change is JobChange.RENAMED]
    put = [step for step in steps if step.change in (JobChange.CREATED, JobChange.CHANGED)]
    put += [step for step in renamed if step.fields]
    removed = [step for step in steps if step.change is JobChange.REMOVED]
    return [
        *(Act(Verb.RENAME, step) for step in renamed),
        *(Act(Verb.PUT, step) for step in put),
        *(Act(Verb.REMOVE, step) for step in removed),
    ]


def document_of(declared: Declaration, steps: Sequence[SyncStep], done: Sequence[Act]) -> Json:
    """The difference as JSON, with the changes that have been made."""
    return {
        "set": declared.set_name,
        "source": declared.source,
        "jobs": [
            {
                "name": step.name,
                "change": step.change.replace(" ", "_"),
                "fields": step.fields,
                "renamed_from": step.renamed_from,
                "done": all(act in done for act in acts_of([step])),
            }
            for step in steps
        ],
    }


async def compared(
    client: "DocumentClient", declared: Declaration, *, prune: bool
) -> list[SyncStep]:
    """The step for each job of the file, and of its set on the server. Changes nothing."""
    steps: list[SyncStep] = []
    problems: list[str] = []
    for job in declared.jobs:
        try:
            steps.append(await _step(client, job, declared.source, prune=prune))
        except ApiProblem as problem:
            if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            problems.append(f"job {job.name!r}: {problem}")
        except BadFile as bad:
            problems += bad.problems
    if problems:
        raise BadFile(problems)
    kept = {job.name for job in declared.jobs} | {step.renamed_from for step in steps}
    own = client.list_cron_jobs(source=declared.source)
    gone = JobChange.REMOVED if prune else JobChange.LEFT
    extra = [
        SyncStep(change=gone, name=job["name"], job_id=job["cron_job_id"])
        async for job in own
        if job["name"] not in kept
    ]
    return steps + sorted(extra, key=lambda step: step.name)


async def _step(client: "DocumentClient", job: Declared, source: str, *, prune: bool) -> SyncStep:
    old = None if job.renamed_from is None else await _found(client, job.renamed_from)
    if old is None:
        return await _put(client, job)
    if await _found(client, job.name) is None:
        # Asked under the old name, where the job still is.
        document = {**job.document, "name": old["name"]}
        answer = await client.put_cron_job(old["name"], document, dry_run=True)
        return SyncStep(
            change=JobChange.RENAMED,
            name=job.name,
            fields=answer["fields"],
            document=job.document,
            job_id=old["cron_job_id"],
            renamed_from=job.renamed_from,
        )
    if prune and old["source"] == source:
        return await _put(client, job)
    both = f"job {job.name!r} exists, and so does {job.renamed_from!r}, which it is renamed_from"
    raise BadFile([f"{both}; remove one of them (gnomon cron rm), or leave renamed_from out"])


async def _put(client: "DocumentClient", job: Declared) -> SyncStep:
    answer = await client.put_cron_job(job.name, job.document, dry_run=True)
    fields = {} if answer["change"] == JobChange.CREATED else answer["fields"]
    return SyncStep(
        change=JobChange(answer["change"]), name=job.name, fields=fields, document=job.document
    )


async def _found(client: "DocumentClient", name: str) -> Json | None:
    try:
        job: Json = await client.get_cron_job(name)
    except ApiProblem as problem:
        if problem.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    return job
