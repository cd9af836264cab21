"""Bugs that were planted by hand and that no test noticed. Each has its tests by now.

They are kept as they were planted: a bug whose text is not found any more must be planted anew.
"""

from collections.abc import Sequence

import msgspec
from proof.mutants.changes import Change
from proof.mutants.plan import Mutant, Project


class Bug(msgspec.Struct, frozen=True):
    """One place of the code, and what it is made to say."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


class Withered(Exception):
    """The code that a bug was written for is not there any more."""


_SPOKEN = "tests/unit/node/test_conversation.py"
_OWNED = ("tests/integration/test_gateway_ownership.py",)

BUGS: Sequence[Bug] = (
    Bug(
        "keys-without-tenant",
        "store/postgres/tasks/idempotency.py",
        "        first.setdefault((each.tenant_id, each.once.key), each)\n"
        "    taken = await _take(connection, list(first.values()), keep_seconds)",
        "        mates = [w for (_, key), w in first.items() if key == each.once.key]\n"
        "        first[(each.tenant_id, each.once.key)] = mates[0] if mates else each\n"
        "    new = {id(w): w for w in first.values()}\n"
        "    taken = await _take(connection, list(new.values()), keep_seconds)",
        ("tests/integration/test_task_store.py",),
    ),
    Bug(
        "cancelled-without-fence",
        "store/postgres/dispatch/settle.sql",
        "      AND t.id IS NOT DISTINCT FROM r.id AND t.fence = r.fence AND t.node = r.node\n"
        "      AND (r.verdict IN (0, 4) OR t.cancel_requested)\n",
        "      AND t.id IS NOT DISTINCT FROM r.id\n"
        "      AND (t.fence = r.fence AND t.node = r.node OR t.cancel_requested)\n"
        "      AND (r.verdict IN (0, 4) OR t.cancel_requested)\n",
        ("tests/integration/test_dispatch_store.py",),
    ),
    Bug(
        "withdraw-what-waits-for-its-retry",
        "store/postgres/cron/withdraw_runs.sql",
        " AND t.attempt = 0",
        "",
        ("tests/integration/test_planning.py",),
    ),
    Bug(
        "permits-kept-after-a-timeout",
        "node/dispatch/permits.py",
        "        if key in self._taken and key not in self.held.stuck:\n",
        "        late = report.outcome is not None and report.outcome.kind == 2\n"
        "        if key in self._taken and key not in self.stuck and not late:\n",
        ("tests/unit/limits/test_permits.py", "tests/integration/test_limits.py"),
    ),
    Bug(
        "retry-from-the-start-of-the-try",
        "store/postgres/dispatch/settle.sql",
        "THEN greatest(t.due_at, m.now) ELSE m.now END\n",
        "THEN greatest(t.due_at, m.now) ELSE coalesce(r.started_at, m.now) END\n",
        ("tests/integration/test_dispatch_store.py",),
    ),
    Bug(
        "dead-by-the-clock",
        "node/membership/roster.py",
        "            if monotonic - self._beats[peer.incarnation][1] >= _patience(peer, lease)\n"
        "            and peer.alive_until < now\n",
        "            if peer.alive_until < now\n",
        ("tests/unit/node/test_roster_watch.py", "tests/integration/test_declaring_dead.py"),
    ),
    Bug(
        "dead-although-it-beats",
        "node/membership/roster.py",
        "before is not None and before[0] == peer.beat",
        "before is not None",
        ("tests/unit/node/test_roster_watch.py", "tests/integration/test_declaring_dead.py"),
    ),
    Bug(
        "dead-although-it-has-beaten-since",
        "store/postgres/dispatch/declare_dead.sql",
        " AND beat = $2",
        " AND $2 >= 0",
        ("tests/integration/test_declaring_dead.py",),
    ),
    Bug(
        "repair-without-those-who-wrote-for-long",
        "node/ahead/reach.py",
        "return min(self._seen_at, min(ended, default=self._seen_at)) - SLACK",
        "return self._seen_at - SLACK",
        ("tests/integration/test_scanner.py",),
    ),
    Bug(
        "losses-kept-by-a-bulk-re-drive",
        "store/postgres/bulk/bulk_redrive.sql",
        "    losses = 0,\n",
        "    losses = t.losses,\n",
        ("tests/integration/test_bulk_operations.py",),
    ),
    Bug(
        "breakers-count-cancellations",
        "node/dispatch/breaker_calls.py",
        "        case OutcomeKind.TIMED_OUT:\n",
        "        case OutcomeKind.TIMED_OUT | OutcomeKind.CANCELLED:\n",
        ("tests/unit/breakers/test_breakers_outcomes.py",),
    ),
    Bug(
        "interrupt-without-notice",
        "store/postgres/cron/interrupt_run.sql",
        "RETURNING pg_notify($3, $1 || E'\\t' || replace(t.id::text, '-', ''))",
        "RETURNING $3::text",
        ("tests/integration/test_overlap_store.py",),
    ),
    # The pipe to remote workers.
    Bug(
        "report-of-another-session",
        "node/remote/conversation.py",
        "        execution = session.held.get(claimed) or self.pipe.recall(session, claimed)\n",
        "        execution = self.pipe.running.get(claimed[0])\n",
        (_SPOKEN,),
    ),
    Bug(
        "report-without-fence",
        "node/remote/conversation.py",
        "        execution = session.held.get(claimed) or self.pipe.recall(session, claimed)\n",
        "        execution = {c[0]: e for c, e in session.held.items()}.get(claimed[0])\n",
        (_SPOKEN,),
    ),
    Bug(
        "sequence-ignored",
        "node/remote/conversation.py",
        "        if poll.sequence < session.sequence:\n",
        "        if poll.sequence < 0:\n",
        (_SPOKEN,),
    ),
    Bug(
        "epoch-ignored",
        "node/remote/conversation.py",
        "        synced = session.epoch == poll.epoch\n",
        "        synced = poll.epoch is not None\n",
        (_SPOKEN, "tests/integration/test_gateway_adoption.py"),
    ),
    Bug(
        "grant-for-another-session",
        "node/remote/conversation.py",
        "        execution = session.held.get(claimed)\n        if execution is None:\n",
        "        execution = self.pipe.running.get(claimed[0])\n        if execution is None:\n",
        (_SPOKEN,),
    ),
    Bug(
        "delivered-again-although-begun",
        "node/remote/conversation.py",
        "if claimed in missing and not e.begun]\n",
        "if claimed in missing]\n",
        (_SPOKEN,),
    ),
    Bug(
        "delivery-without-fence",
        "node/remote/conversation.py",
        "        unheld = has.difference(session.held)",
        "        unheld = {c for c in has if c[0] not in {key for key, _ in session.held}}",
        ("tests/integration/test_gateway_protocol.py",),
    ),
    Bug(
        "receipts-kept-for-ever",
        "node/remote/conversation.py",
        "            self._forget_receipts(session, unheld, reported)\n",
        "",
        (_SPOKEN,),
    ),
    Bug(
        "adoption-without-the-secret",
        "node/remote/desk.py",
        "        holder = _Holder(kept.tenant_id, kept.secret)\n"
        "        _check(holder, session_id, caller)\n",
        "        holder = _Holder(kept.tenant_id, kept.secret)\n",
        ("tests/integration/test_gateway_adoption.py",),
    ),
    Bug(
        "session-of-another-tenant",
        "node/remote/desk.py",
        "    if holder.tenant_id != caller.tenant_id:\n"
        "        raise WorkerSessionNotFound(session_id)\n",
        "",
        ("tests/integration/test_gateway_protocol.py",),
    ),
    Bug(
        "releases-what-another-gateway-claimed",
        "node/remote/session_keeper.py",
        "            if row.gateway != own:\n",
        "            if row.gateway is None:\n",
        _OWNED,
    ),
    Bug(
        "delivers-what-another-gateway-may-release",
        "node/remote/adoption.py",
        "            if not adopted.was_own:\n",
        "            if adopted.was_own is None:\n",
        _OWNED,
    ),
    Bug(
        "adopts-while-its-own-claim-is-under-way",
        "node/remote/adoption.py",
        "        if incarnation not in self._pipe.sessions:\n",
        "        if incarnation is not None:\n",
        _OWNED,
    ),
    Bug(
        "claims-for-the-session-of-another-gateway",
        "store/postgres/dispatch/claim_for_sessions.sql",
        " AND NOT n.dead AND n.gateway = $1",
        " AND NOT n.dead",
        ("tests/integration/test_gateway_adoption.py",),
    ),
)


def planted(project: Project, only: Sequence[str] = ()) -> list[Mutant]:
    """The bugs as mutants. Raises Withered."""
    return [
        Mutant(number, bug.path, _change(project, bug), bug.tests)
        for number, bug in enumerate(BUGS, 1)
        if not only or bug.name in only
    ]


def _change(project: Project, bug: Bug) -> Change:
    text = (project.source / bug.path).read_text()
    start = text.find(bug.old)
    if start < 0:
        raise Withered(f"{bug.name}: {bug.path} does not contain {bug.old!r}: plant it anew")
    line = text.count("\n", 0, start) + 1
    return Change(line, start, start + len(bug.old), bug.new, bug.name)
