"""Looks up the addresses of hosts, without one slow name keeping the others waiting.

The system's own look-up is used, so that hosts files and nsswitch are honoured. It blocks, and
nothing can stop it: so each runs in a daemon thread of its own, of which there are only so many.
There is one look-up of a name at a time, for all who wait for it. One that takes too long counts as
failed and leaves its turn to the next; its thread goes on, and what it finds is still used.
"""

import asyncio
import contextlib
import socket
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from gnomon.clock import Clock

log = structlog.get_logger("gnomon.node.run")

LOOK_UP_SECONDS = 10.0  # for one look-up
_FRESH_SECONDS = 10.0  # for what was found
_STALE_SECONDS = 30.0  # as long as a look-up that is under way has found nothing newer
_FAILED_SECONDS = 2.0  # for what was not found
_MOST_KEPT = 10_000
_MOST_AT_ONCE = 64
_MOST_OVERDUE = 256  # threads of look-ups that took too long, and have not come back
_FEW_OVERDUE = 8  # that a tenant may have although others have too many


class Found(NamedTuple):
    """One address of a host."""

    family: int
    protocol: int
    address: str


LookUp = Callable[[str], list[Found]]


def system_look_up(host: str) -> list[Found]:
    """By getaddrinfo. Raises OSError."""
    found = []
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    for family, _, protocol, _, address in infos:
        text = str(address[0])
        if family == socket.AF_INET6 and len(address) == 4 and address[3]:  # of a link
            text, _ = socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        found.append(Found(family, protocol, text))
    return found


class _Answer:
    """A name's addresses, or why there are none."""

    __slots__ = ("at", "error", "found", "turn")

    def __init__(self, found: list[Found], error: str | None, at: float) -> None:
        self.found = found
        self.error = error
        self.at = at
        self.turn = 0

    def is_fresh(self, now: float) -> bool:
        return now - self.at < (_FRESH_SECONDS if self.error is None else _FAILED_SECONDS)

    def is_usable(self, now: float) -> bool:
        return self.is_fresh(now) or (self.error is None and now - self.at < _STALE_SECONDS)


class _Question:
    """A name to be looked up, on behalf of one tenant, for all who ask."""

    __slots__ = ("begun", "host", "over", "overdue", "tenant_id", "timer", "waiters")

    def __init__(self, host: str, tenant_id: str) -> None:
        self.host = host
        self.tenant_id = tenant_id
        self.over = asyncio.Event()  # answered, or overdue
        self.waiters = 0
        self.begun = False
        self.overdue = False
        self.timer: asyncio.TimerHandle | None = None


class _Tenant:
    """The look-ups of one tenant. It may not take all threads, however slow its names are."""

    __slots__ = ("overdue", "running", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, _Question] = {}
        self.running = 0
        self.overdue = 0

    def may_begin(self, at_once: int, overdue: int) -> bool:
        """Where all have too many overdue look-ups together, only those who have few begin more."""
        most = _MOST_OVERDUE // 2 if overdue < _MOST_OVERDUE else _FEW_OVERDUE
        return self.running < max(1, at_once * 3 // 4) and self.overdue < most

    def is_idle(self) -> bool:
        return not (self.waiting or self.running or self.overdue)


class Resolver:
    """Addresses of hosts, and what a call waits for before it is made."""

    def __init__(
        self,
        clock: Clock,
        look_up: LookUp = system_look_up,
        seconds: float = LOOK_UP_SECONDS,
        at_once: int = _MOST_AT_ONCE,
        kept: int = _MOST_KEPT,
    ) -> None:
        self._clock = clock
        self._look_up = look_up
        self._seconds = seconds
        self._at_once = at_once
        self._most_kept = kept
        self._known: OrderedDict[str, _Answer] = OrderedDict()
        self._asked: dict[str, _Question] = {}
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()  # the next in turn first
        self._running = 0
        self._overdue = 0
        self._closed = False

    def ready(self, host: str, tenant_id: str) -> Awaitable[None] | None:
        """A wait until the name can be used; None: it can. Whether it leads anywhere,
        the call will find out."""
        answer, now = self._known.get(host), self._clock.monotonic()
        if answer is not None and answer.is_fresh(now):
            return None
        question = self._asked.get(host) or self._ask(host, tenant_id)
        if question.overdue or (answer is not None and answer.is_usable(now)):
            return None
        return self._wait(question)

    async def resolve(self, host: str) -> list[Found]:
        """The addresses of a host, each of them the first in turn. Called for every new
        connection; what `ready` has waited for is at hand. Raises OSError."""
        answer = self._known.get(host)
        if answer is None or not answer.is_usable(self._clock.monotonic()):
            question = self._asked.get(host) or self._ask(host, "")
            if not question.overdue:
                await self._wait(question)
            if question.overdue:
                detail = f"the look-up of the name took longer than {self._seconds:g} s"
                raise OSError(None, detail)
            answer = self._known[host]
        if answer.error is not None:
            raise OSError(None, answer.error)
        answer.turn += 1
        first = answer.turn % len(answer.found)
        return answer.found[first:] + answer.found[:first]

    async def close(self) -> None:
        """Begin no more. Look-ups under way go on; nobody waits for them."""
        self._closed = True
        for question in self._asked.values():
            if question.timer is not None:
                question.timer.cancel()

    def _ask(self, host: str, tenant_id: str) -> _Question:
        question = self._asked[host] = _Question(host, tenant_id)
        tenant = self._tenants.setdefault(tenant_id, _Tenant())
        tenant.waiting[host] = question
        self._begin_next()
        return question

    async def _wait(self, question: _Question) -> None:
        question.waiters += 1
        try:
            await question.over.wait()
        finally:
            question.waiters -= 1
            if not question.waiters and not question.begun:  # nobody needs it any more
                self._asked.pop(question.host, None)
                self._tenants[question.tenant_id].waiting.pop(question.host, None)
                self._forget_if_idle(question.tenant_id)

    def _begin_next(self) -> None:
        """Begin what may be, one tenant after the other."""
        begun = True
        while begun:
            begun = False
            for tenant_id in list(self._tenants):
                if self._running >= self._at_once or self._closed:
                    return
                tenant = self._tenants[tenant_id]
                if tenant.waiting and tenant.may_begin(self._at_once, self._overdue):
                    self._tenants.move_to_end(tenant_id)
                    self._begin(tenant, tenant.waiting.pop(next(iter(tenant.waiting))))
                    begun = True

    def _begin(self, tenant: _Tenant, question: _Question) -> None:
        question.begun = True
        tenant.running += 1
        self._running += 1
        loop = asyncio.get_running_loop()
        question.timer = loop.call_later(self._seconds, self._is_overdue, question)
        thread = threading.Thread(
            target=self._look_up_in_thread, args=(question, loop), name="gnomon-names", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more of them
            loop.call_soon(self._answered, question, [], str(error))

    def _is_overdue(self, question: _Question) -> None:
        tenant = self._tenants[question.tenant_id]
        question.overdue = True
        tenant.running -= 1
        tenant.overdue += 1
        self._running -= 1
        self._overdue += 1
        log.warning(
            "the look-up of a name takes long, and goes on without anybody waiting for it",
            host=question.host,
            tenant=question.tenant_id,
            seconds=self._seconds,
        )
        question.over.set()
        self._begin_next()

    def _answered(self, question: _Question, found: list[Found], error: str | None) -> None:
        tenant = self._tenants[question.tenant_id]
        if question.overdue:
            tenant.overdue -= 1
            self._overdue -= 1
        else:
            tenant.running -= 1
            self._running -= 1
        if question.timer is not None:
            question.timer.cancel()
        self._keep(question.host, _Answer(found, error, self._clock.monotonic()))
        del self._asked[question.host]
        question.over.set()
        self._forget_if_idle(question.tenant_id)
        self._begin_next()

    def _keep(self, host: str, answer: _Answer) -> None:
        self._known[host] = answer
        self._known.move_to_end(host)
        while len(self._known) > self._most_kept:
            self._known.popitem(last=False)

    def _forget_if_idle(self, tenant_id: str) -> None:
        if self._tenants[tenant_id].is_idle():
            del self._tenants[tenant_id]

    # In a thread

    def _look_up_in_thread(self, question: _Question, loop: asyncio.AbstractEventLoop) -> None:
        found: list[Found] = []
        error: str | None = "it has no address"
        try:
            found = self._look_up(question.host)
            if found:
                error = None
        except (OSError, UnicodeError) as failure:
            error = getattr(failure, "strerror", None) or str(failure)
        except Exception as failure:  # noqa: BLE001 - whoever waits must hear of it
            error = f"{type(failure).__name__}: {failure}"
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is there to hear it
            loop.call_soon_threadsafe(self._answered, question, found, error)
