"""What was proven so far, one line a campaign: docs/proof/ledger.jsonl.

A line names the product that was tried by the tree of `src`, so a change of product code begins
a new count, and a change of tests or documents does not.
"""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from proof.campaigns.faults import FAMILIES

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "proof" / "ledger.jsonl"
GOALS = {
    "kills": 200,
    "pauses": 50,
    "postgres_restarts": 30,
    "connection_faults": 200,
    "acknowledged": 100_000,
}


class Product(msgspec.Struct, frozen=True):
    """Which code was tried."""

    commit: str
    tree: str  # of src
    dirty: bool
    touched_at: float  # when a file of src was last written, also if it was put back since


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign."""

    at: str  # when it ended, UTC
    commit: str
    product: str
    seed: int
    seconds: float
    verdict: str  # good, wrong, invalid
    acknowledged: int
    faults: dict[str, int]  # that took effect, by kind
    counts: dict[str, int]  # as the checker counted

    @property
    def by_family(self) -> dict[str, int]:
        return {
            name: sum(self.faults.get(kind, 0) for kind in kinds)
            for name, kinds in FAMILIES.items()
        }


def product() -> Product:
    """What is in the working tree now."""
    dirty = _git("status", "--porcelain", "--", "src")
    touched = max(file.stat().st_mtime for file in _files())
    return Product(_git("rev-parse", "HEAD"), _git("rev-parse", "HEAD:src"), bool(dirty), touched)


def same(before: Product, after: Product) -> bool:
    """Whether the product was the same all the time in between. Other things may have been
    committed; but processes are started from the files of src again and again."""
    unchanged = before.tree == after.tree and before.touched_at == after.touched_at
    return unchanged and not before.dirty and not after.dirty


def _files() -> list[Path]:
    return [ROOT / name for name in _git("ls-files", "--", "src").splitlines()]


def _git(*arguments: str) -> str:
    answer = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


def append(line: Line, file: Path = FILE) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as lines:
        lines.write(msgspec.json.encode(line) + b"\n")


def read(file: Path = FILE) -> list[Line]:
    if not file.exists():
        return []
    lines = file.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Line) for line in lines if line.strip()]


def totals(lines: Iterable[Line]) -> dict[str, int]:
    """What the valid campaigns add up to."""
    sums = dict.fromkeys(GOALS, 0)
    for line in lines:
        if line.verdict == "invalid":
            continue
        sums["acknowledged"] += line.acknowledged
        for name, count in line.by_family.items():
            sums[name] += count
    return sums


def missing(sums: Mapping[str, int]) -> dict[str, int]:
    """What is still to be reached."""
    return {name: goal - sums[name] for name, goal in GOALS.items() if sums[name] < goal}


def readable(lines: list[Line], current: str) -> str:
    """The totals of the newest product in the ledger."""
    if not lines:
        return "the ledger is empty"
    newest = lines[-1].product
    mine = [line for line in lines if line.product == newest]
    sums = totals(mine)
    elsewhere = "" if newest == current else " (not the code in this tree)"
    invalid = sum(line.verdict == "invalid" for line in mine)
    words = [f"product {newest[:12]}{elsewhere}, {len(mine)} campaigns, {invalid} of them invalid"]
    for name, goal in GOALS.items():
        words.append(f"  {name.replace('_', ' '):18} {sums[name]:>8} of {goal}")
    counts: dict[str, int] = {}
    for line in mine:
        for name, count in line.counts.items():
            counts[name] = counts.get(name, 0) + count
    words += [f"  {name.replace('_', ' '):32} {count}" for name, count in counts.items()]
    bad = [str(line.seed) for line in mine if line.verdict == "wrong"]
    if bad:
        words.append(f"WRONG with the seeds {', '.join(bad)}")
    left = missing(sums)
    words.append(
        "missing: " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in left.items())
        if left
        else f"nothing is missing; 0 in {sums['acknowledged']} means at most "
        f"{3 / sums['acknowledged']:.1e} (95 %)"
    )
    return "\n".join(words)
