"""The page that asks before all tasks that match a filter are changed.

Any page leads to it by an address that `confirm_url` writes:
`/bulk-operations/new?action=retry&q=<filter>`. The filter is text as on the page of tasks, also
with `error:"a part of the last error"`. Nothing is changed before the button there is pressed, and
then only if as many tasks match as it says.
"""

import secrets
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Principal, Role
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.idempotency import MOST_KEY_CHARACTERS, once_of
from gnomon.api.http.requests.reading import read_form
from gnomon.api.tasks.bulk_operations import BulkTaskFilter, check_room
from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.forms.form_fields import moment_of_field
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.bulk_errors import CountChanged, TooManyBulkOperations
from gnomon.model.errors import (
    GnomonError,
    IdempotencyConflict,
    InvalidTask,
    RoleMissing,
    TaskNotFound,
)
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.bulk import RESOLVING, BulkAction, BulkFilter, BulkWork
from gnomon.usecases.tasks import bulk_operations
from gnomon.usecases.tasks.bulk_operations import BulkPreview

HERE = "/bulk-operations"
_NO_NUMBER = "look at the number of tasks first, then confirm it"
_USED = "this page has begun another operation already; look at the number again, then confirm it"
_NO_ACTION = "choose what to do with the tasks"
_DOES = {
    "retry": "Each runs again now: a dead letter with all its retries.",
    "cancel": "Each that has not ended is cancelled.",
    "reschedule": "Each that waits is moved to the time that you give.",
    "delete": "Each is removed, with its payload and its executions. This cannot be undone.",
    "archive": "Each dead letter goes to the archive. Its history is kept.",
    "discard": "Each dead letter is discarded: nobody needs it. Its history is kept.",
}
_SPARED = {
    "retry": (
        "Tasks that fail for good after you press the button.",
        "Dead letters for which the tenant's quotas have no room.",
    ),
    "cancel": ("Running tasks, unless you say so below.",),
    "reschedule": ("Running tasks.", "Tasks that would expire before the new time."),
    "delete": ("Running tasks.",),
    "archive": ("Tasks that fail for good after you press the button.",),
    "discard": ("Tasks that fail for good after you press the button.",),
}


def confirm_url(action: BulkAction | None, tokens: Mapping[str, str]) -> str:
    """The address of the page, for all tasks with these conditions."""
    asked = {} if action is None else {"action": str(action)}
    return f"{HERE}/new?" + urlencode(asked | {"q": filter_tokens.written(dict(tokens))})


class _Confirmed(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the page, as they came."""

    action: str
    q: str
    execute_at: str
    interrupt: bool
    note: str
    expect: str
    once: str

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "_Confirmed":
        return cls(
            action=fields.get("action", ""),
            q=fields.get("q", "").replace("\0", ""),
            execute_at=fields.get("execute_at", ""),
            interrupt=fields.get("interrupt") == "on",
            note=fields.get("note", "").replace("\r\n", "\n").strip(),
            expect=fields.get("expect", ""),
            once=fields.get("once", ""),
        )

    def chosen(self) -> BulkFilter:
        """Raises InvalidTask."""
        return filter_tokens.query_of(filter_tokens.parsed(self.q), BulkTaskFilter).chosen()

    def work(self, by: Principal, execute_at: datetime) -> BulkWork:
        """What is to be done. Raises InvalidTask."""
        if self.action not in set(BulkAction):
            raise InvalidTask(_NO_ACTION, "/action")
        action = BulkAction(self.action)
        work = BulkWork(
            action=action,
            chosen=self.chosen(),
            interrupt=self.interrupt and action is BulkAction.CANCEL,
            execute_at=execute_at if action is BulkAction.RESCHEDULE else None,
            note=(self.note or None) if action in RESOLVING else None,
        )
        return bulk_operations.limited_work(work, by)

    def expected(self) -> int:
        """The number that was shown. Raises InvalidTask."""
        if not (self.expect.isascii() and self.expect.isdecimal() and len(self.expect) < 10):
            raise InvalidTask(_NO_NUMBER, "/expect")
        return int(self.expect)


@PageRoute("GET", f"{HERE}/new", role=Role.OPERATE)
async def show_confirmation(request: Request) -> ASGIResponse:
    given = request.query_params
    return await _page(request, _Confirmed.of({name: given[name] for name in given}), None)


@PageRoute("POST", HERE, role=Role.OPERATE)
async def begin(request: Request) -> ASGIResponse:
    asked = _Confirmed.of(await read_form(request, OVERHEAD_BYTES))
    _check_reader(request)
    try:
        operation_id = await _begin(request, asked)
    except IdempotencyConflict:
        return await _page(request, asked, InvalidTask(_USED, "/expect"))
    except (InvalidTask, CountChanged, TooManyBulkOperations) as error:
        return await _page(request, asked, error)
    return redirect(f"{HERE}/{operation_id}")


async def _begin(request: Request, asked: _Confirmed) -> UUID:
    """Begins it, once for each page that was shown: a second press finds the first operation."""
    context, by = context_of(request), principal_of(request)
    now, execute_at = context.clock.now(), context.clock.now()
    if asked.action == BulkAction.RESCHEDULE:
        execute_at = moment_of_field(asked.execute_at, "/execute_at")
    work, expect = asked.work(by, execute_at), asked.expected()
    check_room(request, work.action)
    once = None
    if 0 < len(asked.once) <= MOST_KEY_CHARACTERS and asked.once.isalnum():
        once = once_of(asked.once, "POST", HERE, msgspec.json.encode(asked))
    async with context.store.change(by.tenant_id, once) as change:
        if change.replay is not None:
            return msgspec.json.decode(change.replay, type=UUID)
        begun = await bulk_operations.start(change, by, work, expect, now)
        change.answer = msgspec.json.encode(begun.operation.operation_id)
    return begun.operation.operation_id


async def _page(request: Request, asked: _Confirmed, refusal: GnomonError | None) -> ASGIResponse:
    """The page with the present number, and why the last press was refused."""
    _check_reader(request)
    by = principal_of(request)
    found, tokens, wrong = None, {}, refusal
    try:
        tokens = filter_tokens.parsed(asked.q)
        found = await _preview(request, asked, by)
    except InvalidTask as error:
        wrong = refusal or error
    status = 200 if wrong is None else 422 if isinstance(wrong, InvalidTask) else 409
    return page(
        request,
        "bulk_confirm.html",
        status,
        asked=asked,
        actions=list(BulkAction),
        does=_DOES.get(asked.action, ""),
        untouched=_untouched(asked, by),
        tokens=tokens,
        total=None if found is None else found.operation.total,
        examples=[] if found is None else await _examples(request, found),
        changed=wrong if isinstance(wrong, CountChanged) else None,
        wrong=None if wrong is None or isinstance(wrong, CountChanged) else _place(wrong),
        once=secrets.token_hex(16),
    )


async def _preview(request: Request, asked: _Confirmed, by: Principal) -> BulkPreview | None:
    """What it would be for. The new time of tasks is asked for last, and does not count."""
    context = context_of(request)
    if not asked.action:
        asked.chosen()
        return None
    now = context.clock.now()
    work = asked.work(by, now)
    async with context.store.change(by.tenant_id) as change:
        return await bulk_operations.preview(change, by, work, now)


async def _examples(request: Request, found: BulkPreview) -> list[Task]:
    store, tenant, tasks = context_of(request).store, principal_of(request).tenant_id, []
    for task_id in found.examples:
        try:
            tasks.append(await store.get(TaskKey(tenant, task_id)))
        except TaskNotFound:  # it has just been removed
            continue
    return tasks


def _untouched(asked: _Confirmed, by: Principal) -> list[str]:
    """What the operation leaves alone, in words."""
    told = ["Tasks that are created after you press the button."]
    if asked.action in ("retry", "archive", "discard") and "status:" not in asked.q:
        told.append("Tasks in other states than dead letter.")
    told += _SPARED.get(asked.action, ())
    if by.limited:
        told.append("Tasks outside of the limits of your key.")
    return told


def _place(error: GnomonError) -> tuple[str, str]:
    """The field of the page that an error is about, and the error."""
    pointer = error.pointer if isinstance(error, InvalidTask) else ""
    field = pointer.removeprefix("/filter").removeprefix("/")
    if field in ("action", "execute_at", "expect", "interrupt", "note"):
        return field, str(error)
    token = next((name for name, each in filter_tokens.FIELDS.items() if each == field), "")
    return "q", f"{token} {error}" if token else str(error)


def _check_reader(request: Request) -> None:
    """Examples of tasks are shown."""
    by = principal_of(request)
    if not by.may(Role.READ):
        raise RoleMissing(Role.READ, by.roles)


ROUTES = (show_confirmation, begin)
