"""One thing that `gnomon doctor` has looked at."""

import msgspec


class Check(msgspec.Struct, frozen=True):
    """What was found and, if it is wrong, the remedy."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
