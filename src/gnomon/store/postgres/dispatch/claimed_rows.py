"""Claimed rows: how they are read, as PostgreSQL gives them to whoever runs them.

A claim answers with columns (see `claimed_columns`), and a settlement that claims, among other
things, with the same columns as one JSON object.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from gnomon.model.remembered import remembered
from gnomon.model.targets.target import Target
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Burial, Claim
from gnomon.store.postgres.rows import LANES, MODES, UNREADABLE, origin_of

DEFAULT_POLICY = RetryPolicy()
_MOST_REASON = 500
_NOT_BEFORE = 25  # its place among the columns


# Tasks of one kind share their target and policy to the letter, so decoding them once is enough.
@remembered
def decoded_target(text: str) -> Target:
    target: Target = msgspec.json.decode(text, type=Target)
    return target


@remembered
def decoded_policy(text: str) -> RetryPolicy:
    return msgspec.json.decode(text, type=RetryPolicy)


class TakenRow(msgspec.Struct):
    """A claimed row in the answer to a settlement: the columns, in their order."""

    tenant_id: str
    id: UUID
    fence: int
    attempt: int
    retries_left: int
    losses: int
    target: msgspec.Raw
    payload: msgspec.Raw
    payload_size: int | None
    timeout_seconds: float
    retry_policy: msgspec.Raw
    task_type: str
    lane: int
    delivery: int
    scheduled_for: float
    idempotency_key: str | None
    preemptible: bool
    queue: str | None
    limit_keys: str | None
    flow: int
    origin: msgspec.Raw
    expired: bool
    recurring: bool
    workflow_node: str | None
    address: None  # not known of these
    not_before: float
    without_payload: bool  # or it is null

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.tenant_id, self.id)

    def columns(self) -> list[Any]:
        """The columns as a claim answers them."""
        columns = list(msgspec.structs.astuple(self)[: _NOT_BEFORE + 1])
        for place, value in enumerate(columns):
            if type(value) is msgspec.Raw:
                columns[place] = None if value == _NULL else bytes(value).decode()
        if not self.without_payload:
            columns[_PAYLOAD] = bytes(self.payload).decode()
        return columns


_NULL = msgspec.Raw(b"null")
_PAYLOAD = TakenRow.__struct_fields__.index("payload")
_taken = msgspec.json.Decoder(TakenRow)


def taken_row(text: str) -> TakenRow:
    return _taken.decode(text)


def claim_of(
    rows: Sequence[Any],
    incarnation: UUID | None,
    grace: float,
    keys: Sequence[TaskKey] = (),
    *,
    early: bool = False,
) -> Claim:
    """What was claimed for this node; None: each for the session that is named behind its columns.
    `keys`: those that were asked for, whose order PostgreSQL does not keep. `early`: ahead of their
    time, too."""
    if not rows:
        return Claim([], None)
    patience = grace / 2
    known = {key.id: key for key in keys}  # their hashes are known as well
    claimed: dict[TaskKey, Delivery] = {}
    unreadable: list[Burial] = []
    for row in rows:
        try:
            if incarnation is None:
                *columns, claimant = row
                delivery = _delivery(columns, known, claimant, patience)
            else:
                delivery = _delivery(row, known, incarnation, patience)
            claimed[delivery.key] = delivery
        except UNREADABLE as error:
            tenant_id, task_id, fence = row[0], row[1], row[2]
            key, why = TaskKey(tenant_id, task_id), f"its row cannot be read: {error}"
            unreadable.append(Burial(key, fence, why[:_MOST_REASON]))
    in_order = [claimed.pop(key) for key in keys if key in claimed]  # each once
    # What is not claimed early may start from the moment of the claim on.
    now = None if early else datetime.fromtimestamp(rows[0][_NOT_BEFORE], UTC)
    return Claim([*in_order, *claimed.values()], now, unreadable)


def _delivery(
    row: Iterable[Any], known: Mapping[UUID, TaskKey], incarnation: UUID, patience: float
) -> Delivery:
    """`known`: the keys that were asked for, by their ids."""
    (
        tenant_id, task_id, fence, attempt, retries_left, losses, target, payload, payload_size,
        timeout_seconds, retry_policy, task_type, lane, mode, scheduled_for, idempotency_key,
        preemptible, queue, limit_keys, flow, origin, expired, recurring, workflow_node, address,
        not_before,
    ) = row  # fmt: skip
    key = known.get(task_id)
    if key is None or key.tenant_id != tenant_id:  # or two tenants have chosen one id
        key = TaskKey(tenant_id, task_id)
    # By position: names take as long as all the rest.
    return Delivery(
        key, fence, incarnation, attempt, retries_left, losses,
        decoded_target(target), None if payload is None else payload.encode(), payload_size,
        timeout_seconds,
        DEFAULT_POLICY if retry_policy is None else decoded_policy(retry_policy),
        task_type, LANES[lane], scheduled_for, not_before + patience, idempotency_key, expired,
        MODES[mode], preemptible, queue, limit_keys, flow, recurring,
        None if origin is None else origin_of(origin), workflow_node, address, not_before,
    )  # fmt: skip
