"""What a campaign is asked to do, and how it is kept so that it can be judged again."""

import gzip
import itertools
from pathlib import Path
from typing import Literal

import msgspec
from proof.campaigns.checker import Judgement, judge
from proof.campaigns.expectations import Limits
from proof.campaigns.faults import (
    API_POINTS,
    GATEWAY_POINTS,
    PIPE_RATES,
    RATES,
    Options,
    Planned,
    plan,
)
from proof.campaigns.foreign import Language
from proof.campaigns.history import History
from proof.campaigns.load import Mix
from proof.campaigns.pipe_servers import PipeName

Verdict = Literal["good", "wrong", "invalid"]


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """All that a campaign depends on, besides the machine."""

    name: str = "campaign"
    seed: int = 1
    seconds: float = 60.0  # of load and faults
    rate: float = 60.0  # tasks a second
    mix: Mix = msgspec.field(default_factory=Mix)
    nodes: int = 3
    apis: int = 1
    workers: int = 0  # remote ones, which run all handlers
    languages: tuple[Language, ...] = ("python",)  # of the remote ones, in turn
    pipe: PipeName | None = None  # that they are behind
    slots: int = 64
    lease: float = 2.0
    density: float = 1.0
    rates: dict[str, float] | None = None  # faults a minute, by kind; None: the usual ones
    faults: list[Planned] | None = None  # exactly these, instead of drawn ones
    effective: float = 0.6  # of the faults of a kind, this share must take effect
    settle_seconds: float = 120.0  # until all must be over
    mutant: str | None = None
    no_excuse: tuple[str, ...] = ()  # faults that explain nothing in this campaign

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"node-{number}" for number in range(1, self.nodes + 1))

    @property
    def api_names(self) -> tuple[str, ...]:
        return tuple(f"api-{number}" for number in range(1, self.apis + 1))

    @property
    def worker_names(self) -> tuple[str, ...]:
        return tuple(f"worker-{number}" for number in range(1, self.workers + 1))

    @property
    def pointed(self) -> tuple[str, ...]:
        """The remote workers that have points to crash at: those in Python."""
        turns = zip(self.worker_names, itertools.cycle(self.languages), strict=False)
        return tuple(name for name, language in turns if language == "python")

    def planned(self) -> list[Planned]:
        """The faults, the same each time."""
        if self.faults is not None:
            return self.faults
        options = Options(
            seconds=self.seconds,
            nodes=self.node_names,
            apis=self.api_names,
            workers=self.worker_names,
            pointed=self.pointed,
            api_points=GATEWAY_POINTS if self.workers else API_POINTS,
            lease=self.lease,
            density=self.density,
        )
        if self.pipe is not None:
            options = msgspec.structs.replace(options, rates=RATES | PIPE_RATES[self.pipe])
        if self.rates is not None:
            options = msgspec.structs.replace(options, rates=self.rates)
        return plan(self.seed, options)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign left, and what follows from it."""

    setup: Setup
    history: History
    judgement: Judgement
    invalid: list[str]  # why it proves nothing

    @property
    def verdict(self) -> Verdict:
        """What is wrong is wrong, whether or not enough faults took effect."""
        if self.judgement.wrong:
            return "wrong"
        return "invalid" if self.invalid else "good"


def judged(setup: Setup, history: History, limits: Limits | None = None) -> Result:
    """The verdict on what a campaign left."""
    excusing = [f for f in history.faults if f.kind not in setup.no_excuse]
    judgement = judge(msgspec.structs.replace(history, faults=excusing), limits)
    return Result(
        setup=setup,
        history=history,
        judgement=judgement,
        invalid=_too_little(setup, history, judgement),
    )


def _too_little(setup: Setup, history: History, judgement: Judgement) -> list[str]:
    reasons = []
    planned = setup.planned()
    for kind in sorted({p.kind for p in planned}):
        wanted = sum(p.kind == kind for p in planned)
        struck = sum(f.kind == kind and f.took_effect for f in history.faults)
        if struck < max(1, round(setup.effective * wanted)):
            reasons.append(f"only {struck} of {wanted} faults of the kind {kind} took effect")
    expected = setup.rate * setup.seconds
    if judgement.acknowledged < 0.25 * expected:
        reasons.append(f"only {judgement.acknowledged} tasks of {expected:.0f} were acknowledged")
    if not judgement.calls:
        reasons.append("not a single call arrived")
    return reasons


def keep(folder: Path, setup: Setup, history: History) -> None:
    """Write both to a folder."""
    (folder / "setup.json").write_bytes(msgspec.json.format(msgspec.json.encode(setup), indent=1))
    (folder / "history.json.gz").write_bytes(gzip.compress(msgspec.json.encode(history), 3))


def kept(folder: Path) -> tuple[Setup, History]:
    """Read both from a folder."""
    setup = msgspec.json.decode((folder / "setup.json").read_bytes(), type=Setup)
    packed = (folder / "history.json.gz").read_bytes()
    return setup, msgspec.json.decode(gzip.decompress(packed), type=History)
