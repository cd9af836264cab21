"""The result of one check of `gnomon doctor`."""

import msgspec


class Check(msgspec.Struct, frozen=True):
    """A finding and, if it is wrong, the remedy."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
