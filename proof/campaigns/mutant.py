"""What a planted bug is, and the small campaigns that bring one to light."""

from collections.abc import Sequence

import msgspec
from proof.campaigns.checker import Kind
from proof.campaigns.faults import Planned
from proof.campaigns.load import Mix
from proof.campaigns.setup import Setup


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A planted bug, and what brings it to light."""

    broken: str  # what is
    provoked_by: str
    found_by: tuple[Kind, ...]  # any of these
    setup: Setup


def mix_of(**shares: object) -> Mix:
    """Calls and functions at least once, and nothing out of the ordinary but what is asked for."""
    plain = {
        "modes": {"at_least_once": 1.0},
        "targets": {"webhook": 1.0, "function": 1.0},
        "late_commit": 0.0,
        "failing": 0.0,
        "doomed": 0.0,
        "changed": 0.0,
    }
    return msgspec.convert(plain | shares, Mix)


def fault_of(kind: str, victim: str, at: float, seconds: float = 0.0, **more: object) -> Planned:
    fields = {"kind": kind, "victim": victim, "at": at, "seconds": seconds, **more}
    return msgspec.convert(fields, Planned)


def setup_of(seconds: float, faults: Sequence[Planned] = (), **more: object) -> Setup:
    fields: dict[str, object] = {"mix": mix_of(), "rate": 30.0, "settle_seconds": 40.0, **more}
    return Setup(name="zoo", seconds=seconds, faults=list(faults), **fields)  # type: ignore[arg-type]
