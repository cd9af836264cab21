"""Events whose id follows from what they are about: whoever enters one again adds nothing."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from gnomon.clock import EPOCH
from gnomon.model.ids import uuid7
from gnomon.store.ports.insight.events import NewEvent

_ENTROPY_BYTES = 9  # 72 of the 74 bits


def told_once(
    tenant_id: str,
    kind: str,
    at: datetime,
    about: str,
    detail: Mapping[str, object],
) -> NewEvent:
    """An event of a kind at a moment, about this."""
    digest = hashlib.sha256(f"{tenant_id}\0{about}".encode()).digest()
    return NewEvent(
        tenant_id=tenant_id,
        id=uuid7(
            (at - EPOCH) // timedelta(milliseconds=1), int.from_bytes(digest[:_ENTROPY_BYTES])
        ),
        kind=kind,
        detail=msgspec.json.encode(detail).decode(),
    )
