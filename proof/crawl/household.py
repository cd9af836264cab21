"""A tenant with something of everything, and its mark in every text of it."""

import base64
import itertools
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import psycopg
import requests
from proof.crawl.roles import Key
from psycopg.rows import scalar_row

from gnomon.access.api_key import RANDOM_BYTES, hash_of, hint_of, key_from
from gnomon.access.principal import TENANT_ROLES, Role
from gnomon.clock import SystemClock, new_incarnation, new_secret
from gnomon.model.ids import uuid7
from gnomon.model.insight.activity import DELAYS
from gnomon.model.outcomes import fingerprint

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_CURSOR = re.compile(r'"next_cursor":"([\w-]{22})"')
_LARGE = 3000  # bytes; such payloads are kept apart
_KEPT = 20
_PAST = "2026-01-01T00:00:00Z"

# Brings a submitted task into a state that otherwise only nodes bring about.
_DEAD = """
UPDATE gnomon.task
SET state = 4, attempt = 4, fence = 8, last_error = %(mark)s, fingerprint = %(fingerprint)s
WHERE tenant_id = %(tenant)s AND id = %(id)s
"""
_TRIED = """
INSERT INTO gnomon.execution (
    tenant_id, task_id, fence, attempt, outcome, started_at, finished_at, worker, error,
    response_status, response_body
)
VALUES (%(tenant)s, %(id)s, 1, 1, 1, now(), now(), 'node', %(mark)s, 500, %(mark)s)
"""
_RUNNING = """
UPDATE gnomon.task
SET state = 1, attempt = 1, fence = 1, node = %(node)s, started_at = now(),
    run_until = now() + interval '1 hour'
WHERE tenant_id = %(tenant)s AND id = %(id)s
"""
_COMPLETED = """
UPDATE gnomon.task_archive
SET state = 10, attempt = 1, fence = 2, started_at = now(), result = to_json(%(mark)s::text),
    response_status = 200, response_body = %(mark)s, worker = 'node'
WHERE tenant_id = %(tenant)s AND id = %(id)s
"""
_EVENT = """
INSERT INTO gnomon.event (tenant_id, id, kind, at, cron_job_id, task_id, detail)
VALUES (%(tenant)s, %(event)s, 'sla_missed', now(), %(event)s, %(id)s,
        json_build_object('job', %(mark)s::text))
"""
_SUBSCRIPTION = """
INSERT INTO gnomon.subscription (id, name, channel, rules, created_at, updated_at)
VALUES (gen_random_uuid(), %s, '{"type": "webhook", "url": "https://hooks.example.com/"}', '{}',
        now(), now())
"""
_INSTALLATION_EVENT = """
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
VALUES ('*', %s, 'node.lost', now(), '{"node": "crawled"}')
"""
_NODE = """
INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
VALUES (%(node)s, 'node', '1', 1, now(), now() + interval '1 day')
"""
_BREAKER = """
INSERT INTO gnomon.breaker (tenant_id, host, node, until, opened_at, calls, failures, error)
VALUES (%(tenant)s, %(mark)s || '.example', %(node)s, now() + interval '1 hour', now(), 9, 9,
        %(mark)s)
"""
_ACTIVITY = """
INSERT INTO gnomon.activity (
    tenant_id, span, task_type, starts_at, lane, submitted, started, succeeded, failed, dead,
    seconds, delays
)
SELECT %(tenant)s, 1, %(mark)s, date_trunc('minute', now()) - interval '2 minutes', 0, 9, 9, 8, 1,
    1, 1, array_fill(1::bigint, ARRAY[%(buckets)s::integer])
"""
_KEY = """
INSERT INTO gnomon.api_key (
    id, tenant_id, name, hash, hint, roles, created_by, task_types, expires_at, revoked_at
)
VALUES (
    %(id)s, %(tenant)s, %(name)s, %(hash)s, %(hint)s, %(roles)s, %(mark)s, %(task_types)s,
    %(expires_at)s, %(revoked_at)s
)
"""
# The one of before goes: a tenant has a hundred at the most.
_SECRET = """
WITH gone AS (
    DELETE FROM gnomon.webhook_secret WHERE tenant_id = %(tenant)s AND host = %(host)s
)
INSERT INTO gnomon.webhook_secret (id, tenant_id, host, scheme, secret, created_by)
VALUES (%(id)s, %(tenant)s, %(host)s, 'v1', gnomon.new_webhook_secret(), %(mark)s)
"""
# Over the API it would need a connection of the settings.
_FEED = """
INSERT INTO gnomon.feed (tenant_id, id, name, url, states, created_at, updated_at)
VALUES (
    %(tenant)s, gen_random_uuid(), %(name)s, 'queue://crawl/' || %(tenant)s, '{10}', now(), now()
)
ON CONFLICT (tenant_id, name) WHERE removed_at IS NULL DO UPDATE SET url = excluded.url
"""


def as_cursor(text: str) -> str:
    """An id as the cursor of a page."""
    return base64.urlsafe_b64encode(UUID(text).bytes).decode().rstrip("=")


def as_id(cursor: str) -> str:
    return str(UUID(bytes=base64.urlsafe_b64decode(cursor + "==")))


# Nobody beats for it: so that whatever changes it was somebody's doing.
_LASTING = """
UPDATE gnomon.node SET alive_until = gnomon.now() + interval '1 day' WHERE incarnation = %s
"""


def ids_in(text: str) -> set[str]:
    return set(_UUID.findall(text))


class Household:
    """One tenant. `stock` has the ids and names of what it owns, by the resource in the path."""

    def __init__(self, name: str, url: str, database: "psycopg.Connection[Any]") -> None:
        self.tenant_id = f"{name}-{new_secret(4).hex()}"
        self.mark = f"canary-{self.tenant_id}"
        self.ids: set[str] = set()
        self.of_installation: set[str] = set()  # ids of what operators see, and no tenant
        self.stock: dict[str, list[str]] = {}
        self.session_secrets: dict[str, str] = {}
        self._url = f"{url}/api/v1/"
        self._database = database
        self._numbers = itertools.count(1)
        self._session = requests.Session()
        self._execute(
            "INSERT INTO gnomon.tenant (id, plan) VALUES (%s, 'unlimited')", self.tenant_id
        )
        # Keys that the crawl asks with: what it finds in the stock it may revoke.
        self.keys = {key.kind: key for key in self._keys()}
        self._own_of_nodes()
        self._session.headers["Authorization"] = f"Bearer {self.keys['admin'].secret}"

    def _keys(self) -> Iterator[Key]:
        for role in sorted(TENANT_ROLES):
            yield Key(role, self._key(role, [role])[1], frozenset([role]))
        some = [Role.SUBMIT, Role.READ, Role.OPERATE]
        limited = self._key("limited", some, task_types=[self.mark])[1]
        yield Key("limited", limited, frozenset(some), self.mark)
        every = sorted(TENANT_ROLES)
        for kind, ended in (("expired", "expires_at"), ("revoked", "revoked_at")):
            yield Key(kind, self._key(kind, every, **{ended: _PAST})[1], frozenset())
        unknown = key_from(new_secret(RANDOM_BYTES))
        yield Key("unknown", unknown, frozenset())
        yield Key("malformed", unknown[:-1], frozenset())
        yield Key("none", None, frozenset())
        operator = self._operator_key(f"operator {self.tenant_id}")[1]
        yield Key("operator", operator, frozenset([Role.OPERATOR]))

    def owns(self, answer: str, asked: str) -> None:
        """Remember the ids in an answer that were not asked with."""
        self.ids |= ids_in(answer) - ids_in(asked)

    def found_in(self, answer: str, asked: str, *, by_operator: bool = False) -> set[str]:
        """What of this tenant is in an answer, other than what the question named itself. An
        operator may see its name, and nothing else."""
        hidden = self.ids if by_operator else self.ids | self.of_installation
        found = (ids_in(answer) | {as_id(each) for each in _CURSOR.findall(answer)}) & hidden
        sign = self.mark if by_operator else self.tenant_id  # which is in the mark as well
        if sign in answer:
            found.add(sign)
        return {each for each in found if each not in asked}

    def restock(self) -> None:
        """Own something of everything once more."""
        number = next(self._numbers)
        self._restock_tasks(number)
        name = f"{self.mark}-stock-{number}"
        job = self._made("cron-jobs", self._job(name))["cron_job_id"]
        run = self._made(f"cron-jobs/{job}/trigger")["run_id"]
        paused = self._made("cron-jobs", self._job(f"{name}-paused"))["cron_job_id"]
        self._made(f"cron-jobs/{paused}/pause", {"reason": self.mark})
        self._own("cron-jobs", job, name, paused)
        self._own("tasks", run)
        self._own("keys", str(self._key(f"spare-{number}", [Role.READ])[0]))
        self._own_of_operators(number)
        # There may be a hundred of these, no more.
        name = f"{self.mark}-stock-{number % _KEPT}"
        self._put(f"task-types/{name}", {"schema": {"title": self.mark}})
        self._put(f"limiters/{name}", {"task_type": self.mark, "key": "/note", "concurrency": 1})
        self._put(f"saved-views/{name}", {"filter": {"tag": self.mark}})
        self._own("saved-views", name)
        channel = {"type": "webhook", "url": f"https://hooks.example.com/{self.mark}"}
        self._put(f"subscriptions/{name}", {"kinds": ["tasks.*"], "channel": channel})
        self._own("subscriptions", name)
        nodes = {"a": {"task_type": self.mark, "payload": {"note": self.mark}}}
        self._made("workflows", {"name": name, "nodes": nodes})
        run_id = self._made(f"workflows/{name}/runs", {"input": {"note": self.mark}})["run_id"]
        self._own("workflows", name)
        self._own("workflow-runs", run_id)
        batch = {"name": self.mark, "on_complete": {"task_type": self.mark}}
        self._own("batches", self._made("batches", batch)["batch_id"])
        self._own("webhook-secrets", self._secret(f"{name}.example"))
        self._own("webhook-keys", self.tenant_id)
        self._own("task-types", name)
        self._own("limiters", name)
        self._execute(_FEED, {"tenant": self.tenant_id, "name": name})
        self._own("feeds", name)
        worker = {"name": self.mark, "handlers": [self.mark], "slots": 1, "queues": [self.mark]}
        session = self._made("worker-sessions", worker)
        self._own("worker-sessions", session["session_id"])
        self.session_secrets[session["session_id"]] = session["secret"]
        self._execute(_LASTING, session["session_id"])

    def _own_of_nodes(self) -> None:
        """What only nodes write: an open breaker, and what became of tasks."""
        values = {"tenant": self.tenant_id, "mark": self.mark, "node": new_incarnation()}
        for statement in (_NODE, _BREAKER, _ACTIVITY):
            self._execute(statement, values | {"buckets": DELAYS})

    def _own_of_operators(self, number: int) -> None:
        """A tenant, an operator's key and a subscription, for operators to change: whose they are
        is no secret. And an event of the installation, which no tenant may see."""
        spare = f"spare-{number}-{self.tenant_id}"
        self._execute("INSERT INTO gnomon.tenant (id) VALUES (%s)", spare)
        self.stock.setdefault("tenants", []).append(spare)
        key_id, _ = self._operator_key(f"spare operator {number} {self.tenant_id}")
        self.stock.setdefault("operator-keys", []).append(str(key_id))
        self._execute(_SUBSCRIPTION, spare)
        self.stock.setdefault("operator-subscriptions", []).append(spare)
        event = str(_new_id())
        self._execute(_INSTALLATION_EVENT, event)
        self.stock.setdefault("installation-events", []).append(event)
        self.of_installation.add(event)

    def _restock_tasks(self, number: int) -> None:
        waiting = self._task(number)
        dead, resolved, running, completed, cancelled, paused = (
            self._task(number) for _ in range(6)
        )
        self._made(f"tasks/{completed}/cancel")
        self._made(f"tasks/{cancelled}/cancel")
        self._made(f"tasks/{paused}/pause")
        for statement, task_id in (
            (_DEAD, dead),
            (_TRIED, dead),
            (_DEAD, resolved),
            (_RUNNING, running),
            (_COMPLETED, completed),
            (_TRIED, completed),
        ):
            self._change_task(statement, task_id)
        self._made(f"dead-letters/{resolved}/discard", {"note": self.mark})
        self._own("tasks", waiting, dead, resolved, running, completed, cancelled, paused)
        self._own("dead-letters", dead, resolved, waiting, completed)
        self.stock["dead-letter-groups"] = [fingerprint.written(self._group)]
        unnoted, noted = (self._change_task(_EVENT, waiting) for _ in range(2))
        self._made(f"events/{noted}/acknowledge", {"note": self.mark})
        self._own("events", noted, unnoted)
        # No node goes on with it; ended, it leaves room for the next.
        asked = {"action": "archive", "filter": {"tag": self.mark}, "note": self.mark}
        operation = self._made("bulk-operations", asked)["operation_id"]
        self._made(f"bulk-operations/{operation}/stop")
        self._own("bulk-operations", operation)

    @property
    def _group(self) -> int:
        """The fingerprint of its dead letters."""
        return fingerprint.fingerprint(self.mark, self.mark)

    def _change_task(self, statement: str, task_id: str) -> str:
        """Gives the id of the event that it makes, if it does."""
        event = str(_new_id())
        self._execute(
            statement,
            {
                "tenant": self.tenant_id,
                "id": task_id,
                "mark": self.mark,
                "node": new_incarnation(),
                "event": event,
                "fingerprint": self._group,
            },
        )
        return event

    def _task(self, number: int) -> str:
        body = {
            "task_type": self.mark,
            "name": self.mark,
            "payload": {"note": self.mark, "filler": "x" * (_LARGE if number % 2 else 1)},
            "tags": [self.mark],
            "queue": self.mark,
            "callback_url": f"https://example.com/{self.mark}",
            "delay_seconds": 3600,
        }
        task_id: str = self._made("tasks", body)["task_id"]
        return task_id

    def _job(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "task_type": self.mark,
            "payload_template": {"note": self.mark},
            "callback_url": f"https://example.com/{self.mark}",
            "cron_expression": "0 3 * * *",
            "tags": [self.mark],
        }

    def _made(self, path: str, body: Any = None) -> Any:
        answer = self._session.post(self._url + path, json=body)
        assert answer.status_code in (200, 201, 202), f"{path}: {answer.text}"
        return answer.json()

    def _put(self, path: str, body: Any) -> None:
        answer = self._session.put(self._url + path, json=body)
        assert answer.status_code in (200, 201), f"{path}: {answer.text}"

    def _own(self, kind: str, *names: str) -> None:
        self.stock.setdefault(kind, []).extend(names)
        for each in names:
            self.ids |= ids_in(each)

    def _key(self, kind: str, roles: Sequence[Role], **fields: Any) -> tuple[UUID, str]:
        secret = key_from(new_secret(RANDOM_BYTES))
        key_id = _new_id()
        values = {
            "id": key_id,
            "tenant": self.tenant_id,
            "name": f"{kind}-{self.mark}",
            "hash": hash_of(secret),
            "hint": hint_of(secret),
            "roles": [role.value for role in roles],
            "mark": self.mark,
            "task_types": None,
            "expires_at": None,
            "revoked_at": None,
        }
        self._execute(_KEY, values | fields)
        if (values | fields)["tenant"] is not None:
            self.ids.add(str(key_id))
        return key_id, secret

    def _operator_key(self, name: str) -> tuple[UUID, str]:
        return self._key(name, [Role.OPERATOR], tenant=None, name=name, mark=None)

    def _secret(self, host: str) -> str:
        secret_id = _new_id()
        values = {"id": secret_id, "tenant": self.tenant_id, "host": host, "mark": self.mark}
        self._execute(_SECRET, values)
        return str(secret_id)

    def _execute(self, statement: str, values: Any) -> None:
        bound = (values,) if isinstance(values, str) else values
        assert self._database.execute(statement.encode(), bound).rowcount == 1, statement

    def rows(self) -> dict[str, str]:
        """All that there is of this tenant, as a sum for each table. When a key was last used, and
        how much was done, is noted later; and who reads events gives everybody's their numbers."""
        with self._database.cursor(row_factory=scalar_row) as cursor:
            tables = cursor.execute(
                """
                SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
                WHERE c.relnamespace = 'gnomon'::regnamespace AND c.relkind IN ('r', 'p')
                  AND NOT c.relispartition AND a.attname = 'tenant_id' AND NOT a.attisdropped
                  AND c.relname <> 'activity'
                """
            ).fetchall()
            sums = (
                cursor.execute(
                    f"""
                    SELECT json_build_object('rows', count(*), 'sum',
                        md5(coalesce(string_agg(r.text, ',' ORDER BY r.text), '')))::text
                    FROM (SELECT (to_jsonb(t) - 'last_used_at' - 'number')::text AS text
                          FROM gnomon.{table} AS t WHERE tenant_id = %s) AS r
                    """.encode(),
                    (self.tenant_id,),
                ).fetchone()
                for table in tables
            )
            return {table: json.dumps(found) for table, found in zip(tables, sums, strict=True)}


def _new_id() -> UUID:
    """Hypothesis seeds `random` alike in every process, so that ids made by it would meet."""
    return uuid7(int(SystemClock().seconds() * 1000), secrets.randbits(74))
