"""The mutation zoo: bugs planted one at a time, each with a small campaign that must find it.

A harness that finds nothing proves little until it has been seen to find something. The same
campaigns without the bugs (`--control`) must find nothing.
"""

import sys
import time
from collections.abc import Sequence

import msgspec
from proof.campaigns import ledger, patches
from proof.campaigns.campaign import run
from proof.campaigns.checker import Kind
from proof.campaigns.faults import POSTGRES
from proof.campaigns.mutant import Mutant, fault_of, mix_of, setup_of
from proof.campaigns.pipe_servers import lacking
from proof.campaigns.progress import Progress
from proof.campaigns.remote_zoo import REMOTE_ZOO
from proof.campaigns.setup import Result, Setup

PAGE = ledger.ROOT / "docs" / "proof" / "zoo.md"
_SEEDS = 3  # that are tried until a bug is found


_LONG = mix_of(targets={"webhook": 1.0}, longest_run=4.0)
_AT_MOST_ONCE = mix_of(modes={"at_most_once": 1.0}, longest_run=1.5)
_DEATHS = (
    fault_of("crash_point", "node-1", 4.0, 5.0, point="after_call"),
    fault_of("kill", "node-2", 7.0, 1.0),
    fault_of("crash_point", "node-3", 10.0, 5.0, point="before_settle"),
)

ZOO: dict[str, Mutant] = {
    "settle-without-fence": Mutant(
        broken="a settlement checks neither fence nor node",
        provoked_by="a node cut off beyond its lease, then the ones that took over killed",
        found_by=(Kind.STALE_FENCE, Kind.LOST),
        setup=setup_of(
            16.0,
            [
                fault_of("black_hole", "node-1", 4.0, 5.0),
                fault_of("kill", "node-2", 9.6, 1.0),
                fault_of("kill", "node-3", 9.6, 1.0),
            ],
            mix=_LONG,
            rate=50.0,
        ),
    ),
    "complete-without-fence": Mutant(
        broken="a run completed in its handler's transaction checks neither fence nor node",
        provoked_by="a node stopped beyond its lease",
        found_by=(Kind.STALE_FENCE, Kind.DUPLICATE_EFFECT),
        setup=setup_of(
            15.0,
            [fault_of("pause", "node-1", 4.0, 4.5), fault_of("pause", "node-2", 10.0, 4.5)],
            mix=mix_of(targets={"effect": 1.0}, longest_run=4.0),
        ),
    ),
    "renew-resurrects": Mutant(
        broken="a node that was declared dead may renew its lease",
        provoked_by="a node stopped beyond its lease",
        found_by=(Kind.UNEXPECTED,),
        setup=setup_of(12.0, [fault_of("pause", "node-1", 4.0, 5.0)]),
    ),
    "ack-before-commit": Mutant(
        broken="the API answers, and stores afterwards",
        provoked_by="PostgreSQL crashing, the API killed",
        found_by=(Kind.LOST,),
        setup=setup_of(
            14.0,
            [
                fault_of("postgres_immediate", POSTGRES, 4.0, 0.3),
                fault_of("kill", "api-1", 8.0, 0.5),
                fault_of("postgres_immediate", POSTGRES, 11.0, 0.3),
            ],
            mix=mix_of(single=1.0),
        ),
    ),
    "commit-not-awaited": Mutant(
        broken="commits are answered before they are on disk (synchronous_commit off)",
        provoked_by="PostgreSQL crashing",
        found_by=(Kind.LOST,),
        setup=setup_of(
            15.0,
            [fault_of("postgres_immediate", POSTGRES, at, 0.2) for at in (4.0, 8.0, 12.0)],
            mix=mix_of(single=1.0),
            rate=60.0,
        ),
    ),
    "key-not-kept": Mutant(
        broken="idempotency keys are not kept",
        provoked_by="answers of the API lost, and submissions repeated",
        found_by=(Kind.UNEXPECTED,),
        setup=setup_of(
            12.0,
            [
                fault_of("lost_answer", "api-1", 3.0, 5.0, amount=3),
                fault_of("crash_point", "api-1", 6.0, 5.0, point="after_submit_commit"),
            ],
            mix=mix_of(single=1.0),
        ),
    ),
    "cursor-without-repair": Mutant(
        broken="what commits behind the cursor is not looked for",
        provoked_by="transactions that stay open past the due time of what they insert",
        found_by=(Kind.STUCK,),
        setup=setup_of(10.0, mix=mix_of(late_commit=0.3), nodes=1),
    ),
    "claim-takes-running": Mutant(
        broken="a claim takes what is running already",
        provoked_by="a node stopped for less than its lease, while others steal its tasks",
        found_by=(Kind.START_UNEXPLAINED, Kind.OVERLAP_UNEXPLAINED),
        setup=setup_of(
            16.0,
            [fault_of("pause", "node-1", at, 3.0) for at in (4.0, 10.0)],
            mix=mix_of(targets={"function": 1.0}, longest_run=3.0),
            lease=8.0,
        ),
    ),
    "claims-early": Mutant(
        broken="tasks are claimed up to a second before their time",
        provoked_by="load alone",
        found_by=(Kind.EARLY,),
        setup=setup_of(8.0, nodes=1),
    ),
    "starts-held-early": Mutant(
        broken="what was claimed ahead of its instant is started at once",
        provoked_by="many that are due at one instant",
        found_by=(Kind.EARLY,),
        setup=setup_of(
            10.0, mix=mix_of(targets={"function": 1.0}, instants=2.0), nodes=1, rate=100.0
        ),
    ),
    "sweeps-the-living": Mutant(
        broken="the sweeper takes what living nodes run",
        provoked_by="load alone",
        found_by=(Kind.START_UNEXPLAINED, Kind.OVERLAP_UNEXPLAINED),
        setup=setup_of(10.0, mix=mix_of(longest_run=2.0)),
    ),
    "dead-not-swept": Mutant(
        broken="what a dead node ran is not taken over",
        provoked_by="a node killed",
        found_by=(Kind.STUCK,),
        setup=setup_of(10.0, [fault_of("kill", "node-1", 5.0, 1.0)], mix=mix_of(longest_run=2.0)),
    ),
    "claim-not-reconciled": Mutant(
        broken="a claim whose answer was lost is never given back",
        provoked_by="answers to claims lost",
        found_by=(Kind.STUCK,),
        setup=setup_of(
            12.0,
            [
                fault_of("lost_answer", node, at, 4.0, amount=2, point="Take the chosen tasks")
                for node, at in (("node-1", 3.0), ("node-2", 5.0))
            ],
        ),
    ),
    "outcomes-dropped": Mutant(
        broken="outcomes are dropped while PostgreSQL is away",
        provoked_by="PostgreSQL restarted",
        found_by=(Kind.START_UNEXPLAINED, Kind.UNEXPECTED),
        setup=setup_of(
            14.0,
            [fault_of("postgres_fast", POSTGRES, at, 0.8) for at in (4.0, 9.0)],
            mix=mix_of(longest_run=2.0),
            no_excuse=("postgres_fast",),
        ),
    ),
    "retry-as-complete": Mutant(
        broken="a failed try completes its task",
        provoked_by="receivers that fail",
        found_by=(Kind.LOST,),
        setup=setup_of(8.0, mix=mix_of(failing=0.3), nodes=1),
    ),
    "at-most-once-again": Mutant(
        broken="an at_most_once task is tried again after a loss",
        provoked_by="nodes killed while and just after they call",
        found_by=(Kind.START_UNEXPLAINED,),
        setup=setup_of(14.0, _DEATHS, mix=_AT_MOST_ONCE),
    ),
    "begin-not-asked": Mutant(
        broken="an at_most_once task is called without being marked as begun",
        provoked_by="nodes killed while and just after they call",
        found_by=(Kind.START_UNEXPLAINED,),
        setup=setup_of(14.0, _DEATHS, mix=_AT_MOST_ONCE),
    ),
    "cancel-not-settled": Mutant(
        broken="a task that was interrupted is tried again",
        provoked_by="interrupts of running tasks",
        found_by=(Kind.UNEXPECTED,),
        setup=setup_of(12.0, mix=mix_of(changed=0.6), nodes=1),
    ),
    "cancel-not-written": Mutant(
        broken="a cancel is answered and not written",
        provoked_by="cancels of waiting tasks",
        found_by=(Kind.UNEXPECTED,),
        setup=setup_of(10.0, mix=mix_of(changed=0.6), nodes=1),
    ),
    "paused-run-anyway": Mutant(
        broken="paused tasks are claimed",
        provoked_by="pauses of waiting tasks",
        found_by=(Kind.UNEXPECTED,),
        setup=setup_of(10.0, mix=mix_of(changed=0.6), nodes=1),
    ),
    "webhook-id-changes": Mutant(
        broken="the webhook-id is another one for each try",
        provoked_by="receivers that fail",
        found_by=(Kind.UNEXPECTED,),
        setup=setup_of(8.0, mix=mix_of(targets={"webhook": 1.0}, failing=0.3), nodes=1),
    ),
}
ZOO |= REMOTE_ZOO
assert ZOO.keys() == patches.PATCHES.keys(), "each bug has a patch, and each patch a campaign"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign made of a bug, or of its absence."""

    name: str
    seed: int
    seconds: float  # that it took
    by: dict[str, int]  # what was wrong
    right: bool

    def readable(self) -> str:
        words = ", ".join(f"{kind} {count}" for kind, count in self.by.items()) or "nothing wrong"
        return f"{self.name:24} seed {self.seed}  {self.seconds:5.1f} s  {words}"


async def hunt(name: str, seed: int = 1) -> Found:
    """Plant a bug, and look whether it is found."""
    mutant = ZOO[name]
    setup = msgspec.structs.replace(mutant.setup, name=name, seed=seed, mutant=name)
    result, seconds = await _timed(setup)
    by = {kind: finding.count for kind, finding in result.judgement.wrong.items()}
    right = any(str(kind) in by for kind in mutant.found_by)
    return Found(name=name, seed=seed, seconds=seconds, by=by, right=right)


async def control(name: str, seed: int = 1) -> Found:
    """The same campaign without the bug: nothing may be wrong, and its faults must take effect."""
    result, seconds = await _timed(msgspec.structs.replace(ZOO[name].setup, name=name, seed=seed))
    by = {kind: finding.count for kind, finding in result.judgement.wrong.items()}
    by |= dict.fromkeys(result.invalid, 1)
    return Found(name=name, seed=seed, seconds=seconds, by=by, right=result.verdict == "good")


async def _timed(setup: Setup) -> tuple[Result, float]:
    began = time.monotonic()
    with Progress(setup.name, quiet=True) as progress:
        result = await run(setup, progress)
    return result, time.monotonic() - began


async def run_all(only: Sequence[str], *, control: bool, write: bool) -> int:
    """One after the other; gives the exit code. `write`: keep the page of those that were found."""
    names = list(only or ZOO)
    if reasons := lacking(ZOO[name].setup.pipe for name in names):
        print(*reasons, sep="\n", file=sys.stderr)
        return 2
    hunted = []
    for name in names:
        found = await (_controlled(name) if control else _hunted(name))
        words = ("passed" if control else "found") if found.right else "NOT FOUND"
        if control and not found.right:
            words = "WRONG"
        print(f"{words:9} {found.readable()}", flush=True)
        hunted.append(found)
    if write and not control:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(hunted, ledger.product()))
    return 0 if all(found.right for found in hunted) else 1


async def _controlled(name: str) -> Found:
    return await control(name)


async def _hunted(name: str) -> Found:
    for seed in range(1, _SEEDS + 1):
        found = await hunt(name, seed)
        if found.right:
            break
    return found


def page(hunted: Sequence[Found], product: ledger.Product) -> str:
    """docs/proof/zoo.md."""
    rows = []
    for found in hunted:
        mutant = ZOO[found.name]
        by = ", ".join(
            f"{kind.replace('_', ' ')} {found.by[kind]}"
            for kind in map(str, mutant.found_by)
            if kind in found.by
        )
        rows.append(
            f"| `{found.name}` | {mutant.broken} | {mutant.provoked_by} | "
            f"{by or '**not found**'} | {found.seed} | {found.seconds:.0f} |"
        )
    count = sum(found.right for found in hunted)
    return "\n".join(
        [
            "# The mutation zoo",
            "",
            (
                f"{count} of {len(hunted)} planted bugs were found. Written by `make zoo` "
                f"(product tree {product.tree[:12]}); one again: "
                '`make zoo ARGS="--only claims-early"`; the same campaigns without the bugs: '
                "`make zoo ARGS=--control`."
            ),
            "",
            "| bug | what is broken | provoked by | found by | seed | seconds |",
            "|---|---|---|---|---:|---:|",
            *rows,
            "",
        ]
    )
