"""The conversation with the API, without I/O: what to send, when to send it again, what to return.

Each function here is a generator. It yields a Sending or a Pause, is sent the reply, and returns
the result; `http.py` has the two loops that carry this out, one with asyncio and one without.
"""

import math
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from itertools import count
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from gnomon.client.call import Call, ListedItems, Listing
from gnomon.client.calls import batches, tasks, workflows
from gnomon.client.errors import (
    ApiProblem,
    ApiUnreachable,
    ClientError,
    ProblemDocument,
    RateLimited,
    Unavailable,
    WaitTimeout,
    problem_of,
)
from gnomon.client.types.batches import BatchInfo
from gnomon.client.types.tasks import SubmittedTask, TaskInfo, TaskSpec
from gnomon.client.types.workflows import WorkflowRunInfo

T = TypeVar("T")

BATCH_SIZE = 1000
LARGEST_BATCH = 10_000  # as the API has it
LONGEST_WAIT = 30.0  # seconds that a server may ask to wait before it is an error
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.2, 5.0
_LONG_POLL = 20.0  # seconds that the API is asked to wait; proxies may cut off longer ones
_SHORT_PAUSE = 0.5
_LONGEST_OUTAGE = 300.0
_MOST_BATCH_BYTES = 8 * 1024 * 1024  # the API takes 32 MiB
_ASKED_TO_RETRY = (HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
_MAYBE_DONE = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
ENDED_RUNS = ("SUCCEEDED", "FAILED", "CANCELLED", "ROLLED_BACK")
_IN_DOUBT = (ApiUnreachable, Unavailable)  # of a change: it may have taken effect


class Sending(msgspec.Struct, frozen=True):
    """A request to send."""

    method: str
    location: str
    content: bytes | None = None
    key: str | None = None


class Pause(msgspec.Struct, frozen=True):
    """A time to sleep."""

    seconds: float


class Reply(msgspec.Struct, frozen=True):
    """The answer to a request."""

    status: int
    reason: str
    content: bytes
    retry_after: float | None = None  # seconds


class NoReply(msgspec.Struct, frozen=True):
    """No answer."""

    reason: str
    sent: bool  # whether the request may have taken effect
    timed_out: bool = False


Steps: TypeAlias = Generator[Sending | Pause, Reply | NoReply | None, T]


class Rules(msgspec.Struct, frozen=True):
    """How the conversation is led."""

    url: str  # for errors
    retries: int
    chance: Callable[[], float]
    monotonic: Callable[[], float]
    documents: bool = False  # answers stay plain JSON documents
    advice: str | None = None  # where nobody answers
    silence: float = 30.0  # the longest time without an answer, in seconds


class BatchProgress(msgspec.Struct, frozen=True):
    """How far `submit_many` has come: all submitted so far, and the tasks of the last batch in
    their order."""

    submitted: int
    batch: list[SubmittedTask]


def perform(call: Call[T], rules: Rules) -> Steps[T]:
    """Sends a request, again where that is safe, and returns what the answer holds."""
    reply, in_doubt = yield from _exchange(call, rules)
    if in_doubt and call.method == "DELETE" and reply.status == HTTPStatus.NOT_FOUND:
        # The one that was cut off took effect. (Under a key it would have been answered again.)
        reply = reply if call.keyed else Reply(HTTPStatus.NO_CONTENT, "", b"")
    result: T = _decoded(reply.status, content_of(reply), call, rules)
    return result


def read_page(listing: Listing[T], rules: Rules) -> Steps[ListedItems[T]]:
    """The next page of a list."""
    reply, _ = yield from _exchange(listing.call(), rules)
    members = _parsed(reply.status, content_of(reply), dict[str, msgspec.Raw])
    kind: Any = list
    item = Any if rules.documents else listing.item
    items = _parsed(reply.status, _member(reply.status, members, listing.member), kind[item])
    cursor = members.get("next_cursor", msgspec.Raw(b"null"))
    return ListedItems(items, _parsed(reply.status, cursor, str | None))


def wait(
    task_id: str | UUID,
    timeout: float | None,
    rules: Rules,
    include: tasks.IncludedPart | None = None,
) -> Steps[TaskInfo]:
    """Waits until a task has ended or is a dead letter. Once the API has answered, it may be away
    for a while: it restarts, and the task goes on. Raises WaitTimeout."""

    rules = msgspec.structs.replace(rules, documents=False)
    started = answered = rules.monotonic()
    task = yield from perform(tasks.get_task(task_id, include=include), rules)
    while not task.status.has_ended:
        now = rules.monotonic()
        left = math.inf if timeout is None else timeout - (now - started)
        if left <= 0:
            raise WaitTimeout(task.task_id, task.status, timeout or 0.0)
        seconds = min(_LONG_POLL, rules.silence / 2, left)
        try:
            call = tasks.get_task(task_id, wait=seconds, include=include)
            task = yield from perform(call, rules)
            answered = rules.monotonic()
        except (ApiUnreachable, RateLimited, Unavailable) as error:
            late = rules.monotonic()
            if timeout is not None and late - started >= timeout:
                raise WaitTimeout(task.task_id, task.status, timeout) from error
            if late - answered >= _LONGEST_OUTAGE:
                raise
        if not task.status.has_ended and rules.monotonic() - now < seconds / 2:
            yield Pause(min(_SHORT_PAUSE * (1 + rules.chance()), left))  # it did not wait
    return task


def wait_for_run(run_id: str | UUID, timeout: float | None, rules: Rules) -> Steps[WorkflowRunInfo]:
    """Waits until a run of a workflow has ended, or a dead letter holds it up. Raises
    WaitTimeout."""
    found = yield from _awaited(
        lambda seconds: workflows.get_workflow_run(run_id, wait=seconds),
        lambda run: run.status in ENDED_RUNS,
        lambda run: WaitTimeout(run.run_id, run.status, timeout or 0.0, "workflow run"),
        timeout,
        rules,
    )
    return found


def wait_for_batch(batch_id: str | UUID, timeout: float | None, rules: Rules) -> Steps[BatchInfo]:
    """Waits until all tasks of a batch have ended. Raises WaitTimeout."""
    found = yield from _awaited(
        lambda seconds: batches.get_batch(batch_id, wait=seconds),
        lambda batch: batch.finished_at is not None,
        lambda batch: WaitTimeout(batch.batch_id, batch.status, timeout or 0.0, "batch"),
        timeout,
        rules,
    )
    return found


def _awaited(
    read: Callable[[float | None], Call[T]],
    has_ended: Callable[[T], bool],
    late: Callable[[T], WaitTimeout],
    timeout: float | None,
    rules: Rules,
) -> Steps[T]:
    """What `read` gives once that has ended."""
    rules = msgspec.structs.replace(rules, documents=False)
    started = answered = rules.monotonic()
    found = yield from perform(read(None), rules)
    while not has_ended(found):
        now = rules.monotonic()
        left = math.inf if timeout is None else timeout - (now - started)
        if left <= 0:
            raise late(found)
        seconds = min(_LONG_POLL, rules.silence / 2, left)
        try:
            found = yield from perform(read(seconds), rules)
            answered = rules.monotonic()
        except (ApiUnreachable, RateLimited, Unavailable):
            if rules.monotonic() - answered >= _LONGEST_OUTAGE:
                raise
        if not has_ended(found) and rules.monotonic() - now < seconds / 2:
            yield Pause(min(_SHORT_PAUSE * (1 + rules.chance()), left))  # it did not wait
    return found


class BatchedSubmission:
    """Many tasks in batches, each stored whole or not at all. Holds one batch."""

    def __init__(
        self,
        batch_size: int,
        idempotency_key: str | None,
        progress: Callable[[BatchProgress], object] | None,
        rules: Rules,
    ) -> None:
        if not 1 <= batch_size <= LARGEST_BATCH:
            raise ValueError(f"batch_size must be between 1 and {LARGEST_BATCH}, not {batch_size}")
        self.submitted = 0
        self._most = batch_size
        self._key = idempotency_key
        self._progress = progress
        self._rules = msgspec.structs.replace(rules, documents=False)
        self._batch: list[msgspec.Raw] = []
        self._size = 0
        self._number = 0
        self._is_sending = False

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Adds to an error, be it of where the tasks come from, how far this has come."""
        try:
            yield
        except Exception as error:
            refused = isinstance(error, ClientError) and not isinstance(error, _IN_DOUBT)
            fate = "may or may not have been" if self._is_sending and not refused else "was not"
            error.add_note(f"{self.submitted} tasks were submitted; the batch after them {fate}")
            raise

    def add(self, spec: TaskSpec) -> Iterator[list[msgspec.Raw]]:
        """Adds a task; yields the batches to send: one that has no room for it, one that is
        complete with it."""
        encoded = msgspec.json.encode(spec)
        if self._batch and self._size + len(encoded) > _MOST_BATCH_BYTES:
            yield self.rest()
        self._batch.append(msgspec.Raw(encoded))
        self._size += len(encoded) + 1
        if len(self._batch) == self._most:
            yield self.rest()

    def rest(self) -> list[msgspec.Raw]:
        """The tasks that are not in a batch yet."""
        batch, self._batch, self._size = self._batch, [], 0
        return batch

    def send(self, batch: list[msgspec.Raw]) -> Steps[None]:
        """Sends a batch, and reports the progress."""
        if not batch:
            return
        key = None if self._key is None else f"{self._key}-{self._number}"
        self._number += 1
        self._is_sending = True
        call = tasks.submit_encoded(batch, idempotency_key=key)
        done = yield from perform(call, self._rules)
        self._is_sending = False
        self.submitted += len(done)
        if self._progress is not None:
            self._progress(BatchProgress(self.submitted, done))


def ready() -> Steps[bool]:
    """Whether the API is ready for work."""
    reply = yield Sending("GET", "/readyz")
    return isinstance(reply, Reply) and reply.status == HTTPStatus.OK


def _exchange(call: Call[Any], rules: Rules) -> Steps[tuple[Reply, bool]]:
    """The last reply, and whether an earlier request may have taken effect. Raises
    ApiUnreachable."""
    key = call.key
    if key is None and call.keyed and rules.retries:
        key = secrets.token_hex(16)
    sending = Sending(call.method, call.location, call.content, key)
    in_doubt = False
    for attempt in count():
        reply = yield sending
        assert reply is not None, "a request gets a reply"
        seconds = _wait_to_repeat(call, reply) if attempt < rules.retries else None
        if seconds is None:
            if isinstance(reply, NoReply):
                raise ApiUnreachable(rules.url, reply.reason, rules.advice)
            return reply, in_doubt
        in_doubt |= reply.sent if isinstance(reply, NoReply) else reply.status in _MAYBE_DONE
        backoff = min(_FIRST_BACKOFF * 2**attempt, _LONGEST_BACKOFF)
        yield Pause(seconds + backoff * rules.chance())
    raise AssertionError("count() does not end")


def _wait_to_repeat(call: Call[Any], reply: Reply | NoReply) -> float | None:
    """The least time before the request may be sent again; None: it may not, or need not."""
    if isinstance(reply, NoReply):
        if reply.timed_out or (reply.sent and not call.safe_to_repeat):
            return None
        return 0.0
    asked = reply.retry_after
    if asked is not None and asked > LONGEST_WAIT:
        return None
    if reply.status in _ASKED_TO_RETRY:
        return asked
    if reply.status in _MAYBE_DONE and call.safe_to_repeat:
        return asked or 0.0
    return None


def content_of(reply: Reply) -> bytes:
    """The content of a good answer. Raises ApiProblem for any other."""
    if 200 <= reply.status < 300:
        return reply.content
    try:
        problem = msgspec.json.decode(reply.content, type=ProblemDocument)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = ProblemDocument(title=f"{reply.status} {reply.reason}".strip())
    if not problem.title:
        problem = msgspec.structs.replace(problem, title=reply.reason)
    raise problem_of(reply.status, problem, reply.retry_after)


def _decoded(status: int, content: bytes, call: Call[Any], rules: Rules) -> Any:
    if call.answer is None:
        return None
    if rules.documents:
        return _parsed(status, content, dict[str, Any])
    if call.member is not None:
        members = _parsed(status, content, dict[str, msgspec.Raw])
        return _parsed(status, _member(status, members, call.member), call.answer)
    if call.receipt is not None:
        members = _parsed(status, content, dict[str, msgspec.Raw])
        fields = msgspec.structs.fields(call.answer)
        if not members.keys() >= {field.encode_name for field in fields if field.required}:
            return _parsed(status, content, call.receipt)
    return _parsed(status, content, call.answer)


def _member(status: int, members: dict[str, msgspec.Raw], name: str) -> msgspec.Raw:
    if name not in members:
        raise _foreign(status, f"its answer has no member {name!r}")
    return members[name]


def _parsed(status: int, content: bytes | msgspec.Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise _foreign(status, f"its answer is not what this version expects: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _foreign(status, "its answer is not JSON") from error


def _foreign(status: int, detail: str) -> ApiProblem:
    return ApiProblem(status, ProblemDocument(title="this is not Gnomon's API", detail=detail))
