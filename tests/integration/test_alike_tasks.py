"""Tasks of a batch that are like the one before are what they would be alone."""

import itertools
from datetime import UTC, datetime

import msgspec
import pytest
from tests.integration.support import Connection

from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.clock import SystemClock
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission
from gnomon.store.guards import Guards
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.tenant_cache import TenantCache
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.tasks.submit import allowed
from gnomon.usecases.tasks.submit_batch import accept_all
from gnomon.usecases.tasks.task_requests import SubmitWithCallbacks

BY = Principal(tenant_id=DEFAULT_TENANT, name="admin", roles=TENANT_ROLES)
MOST_BYTES = 100
SPREAD = """
INSERT INTO gnomon.task_type (tenant_id, name, schema, defaults)
VALUES ($1, 'spread', 'true', $2)
"""
LATER = datetime(2190, 1, 1, tzinfo=UTC)
PLAIN = {"task_type": "mail", "target": PythonTarget("send")}
# Each differs from the plain one in what it is named after.
KINDS: dict[str, dict[str, object]] = {
    "plain": PLAIN,
    "by type": {"task_type": "mail"},
    "webhook": {"task_type": "mail", "target": HttpTarget("http://example.com/")},
    "callback": {"task_type": "mail", "callback_url": "http://example.com/"},
    "type": {**PLAIN, "task_type": "bill"},
    "priority": {**PLAIN, "priority": "HIGH"},
    "tags": {**PLAIN, "tags": ("a", "b", "a")},
    "later": {**PLAIN, "execute_at": LATER},
    "delay": {**PLAIN, "delay_seconds": 60.0},
    "past": {**PLAIN, "execute_at": datetime(2001, 1, 1, tzinfo=UTC)},
    "expires": {**PLAIN, "expires_at": LATER},
    "key": {**PLAIN, "idempotency_key": "k"},
    "origin": {**PLAIN, "correlation_id": "c"},
    "name": {**PLAIN, "name": "n"},
    "timeout": {**PLAIN, "timeout_seconds": 3.0, "delivery": "at_most_once"},
}
PAYLOADS = (b'{"n": 1}', b"null", b'"text"', None)


@pytest.fixture
async def rules(database: Database, connection: Connection) -> TenantRules:
    await connection.execute(SPREAD, DEFAULT_TENANT, '{"jitter_seconds": 1000}')
    clock = SystemClock()
    directory = TenantCache(PostgresTenantReader(database), clock, {})
    await directory.load()
    return TenantRules(clock, directory, Guards(directory, ()), MOST_BYTES)


def _asked(fields: dict[str, object], payload: bytes | None = None) -> SubmitWithCallbacks:
    given = {} if payload is None else {"payload": msgspec.Raw(payload)}
    return msgspec.convert(
        {**fields, **given}, SubmitWithCallbacks, dec_hook=lambda _, value: value, strict=False
    )


def _alone(rules: TenantRules, asked: SubmitWithCallbacks, like: Submission) -> Submission:
    """The same task by itself, at the moment and with the id that it has in the batch."""
    now = like.due_at if asked.execute_at is None and asked.delay_seconds is None else None
    found = allowed(
        rules, BY, asked, now or rules.clock.now(), asked.idempotency_key, Origin("o"), like.id
    )
    moments = {"execute_at": like.execute_at, "due_at": like.due_at}
    return found if now else msgspec.structs.replace(found, **moments)


def test_every_task_is_what_it_would_be_alone(rules: TenantRules) -> None:
    pairs = [*itertools.product(KINDS, repeat=2)]  # each after each, and after itself
    tasks = [
        _asked(KINDS[name], payload)
        for pair in pairs
        for name, payload in zip((*pair, pair[1]), PAYLOADS, strict=False)
    ]
    accepted = [each.task for each in accept_all(rules, BY, tasks, (), Origin("o")) if each]
    assert len(accepted) == len(tasks)
    for asked, task in zip(tasks, accepted, strict=True):
        assert task == _alone(rules, asked, task)
    ids = [task.id for task in accepted]
    assert ids == sorted(ids)
    assert len({*ids}) == len(ids)
    assert len({task.due_at for task in accepted if task.due_at.year < 2190}) == 2  # and a delay


def test_tasks_that_are_spread_are_spread_each_for_itself(rules: TenantRules) -> None:
    by_type = [_asked({"task_type": "spread"}, payload) for payload in PAYLOADS]
    by_request = [_asked({**PLAIN, "jitter_seconds": 1000.0}, payload) for payload in PAYLOADS]
    accepted = [each.task for each in accept_all(rules, BY, [*by_type, *by_request]) if each]
    assert len({task.due_at for task in accepted}) == len(accepted)


@pytest.mark.parametrize("payload", [b'"' + b"x" * MOST_BYTES + b'"', b'"\xff"'])
def test_a_payload_is_refused_wherever_it_stands(rules: TenantRules, payload: bytes) -> None:
    wrong = _asked(PLAIN, payload)
    with pytest.raises(InvalidTask) as alone:
        allowed(rules, BY, wrong, rules.clock.now(), None)
    with pytest.raises(InvalidTask) as behind:
        [*accept_all(rules, BY, [_asked(PLAIN), _asked(PLAIN), wrong])]
    assert str(behind.value) == str(alone.value)
    assert behind.value.pointer == f"/tasks/2{alone.value.pointer}"
