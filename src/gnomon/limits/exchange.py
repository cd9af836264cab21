"""Messages between a node and the store about permits."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from gnomon.limits.limiter import Bucket


class Told(msgspec.Struct, frozen=True, gc=False):
    """The use of starts that are good until `until`."""

    until: datetime
    starts: int
    at: datetime | None = None  # by when their calls had arrived; None: they will not be made


class Ask(msgspec.Struct, frozen=True, gc=False):
    """A node's question about a bucket: what it keeps, and would like to have."""

    bucket: Bucket
    kept: int  # permits that are in use, or may be before the answer is heard
    wanted: int  # permits, those included
    starts: int  # more of them,
    seconds: float = 0.0  # good for so long, or longer
    rate: int | None = None  # starts a minute, of what is no limiter in the store
    told: Sequence[Told] = ()


class Starts(msgspec.Struct, frozen=True, gc=False):
    """So many, good from when to when by the store's clock."""

    count: int
    since: datetime
    until: datetime


class PermitGrant(msgspec.Struct, frozen=True, gc=False):
    """The store's answer: what a node has of a bucket from now on."""

    bucket: Bucket
    now: datetime  # by the store's clock, when it was made
    permits: int  # that it holds
    allowed: int  # that may be in use; the others are to be returned as soon as they are not in use
    contended: bool  # others wait
    again: float = 0.0  # seconds until there may be more starts, where some lack
    starts: Sequence[Starts] = ()
