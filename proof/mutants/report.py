"""What is shown while mutants are tried, and what is left at the end."""

import textwrap
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from proof.mutants.trial import Fate, Verdict

WIDTH = 80
_EVERY_SECONDS = 10.0


class Progress:
    """A line for each survivor, and one every ten seconds."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._fates: Counter[Fate] = Counter()
        self._next_at = 0.0

    def tell(self, verdict: Verdict) -> None:
        self._fates[verdict.fate] += 1
        if verdict.fate is Fate.SURVIVED:
            print(*_wrapped(verdict), sep="\n", flush=True)
        done, now = self._fates.total(), time.monotonic()
        if now >= self._next_at or done == self._number:
            self._next_at = now + _EVERY_SECONDS
            print(f"{done} of {self._number} tried, {_counts(self._fates)}", flush=True)


def summary(
    verdicts: Sequence[Verdict], seed: int, tried_of: int, left_out: Mapping[str, str]
) -> str:
    """All of it again, by room; and the tests that could not be asked."""
    rooms: dict[str, Counter[Fate]] = {}
    for verdict in verdicts:
        rooms.setdefault(verdict.mutant.room, Counter())[verdict.fate] += 1
    lines = ["", f"{'':12}{'mutants':>9}{'killed':>9}{'timed out':>11}{'survived':>10}"]
    for room, fates in sorted(rooms.items()):
        lines.append(_row(room, fates))
    total = sum(rooms.values(), Counter[Fate]())
    lines.append(_row("all", total))
    survivors = [v for v in verdicts if v.fate is Fate.SURVIVED]
    if survivors:
        lines += ["", "Survived:"]
        for verdict in sorted(survivors, key=lambda v: (v.mutant.path, v.mutant.change.line)):
            lines += _wrapped(verdict)
    if left_out:
        lines += ["", "Left out, for they fail on the code as it is:"]
        lines += [f"  {test}" for test in left_out]
    lines += ["", f"seed {seed}, {len(verdicts)} of {tried_of} chosen mutants tried"]
    return "\n".join(lines)


def write_json(file: Path, verdicts: Sequence[Verdict], seed: int, tried_of: int) -> None:
    """The same for scripts."""
    found = {
        "seed": seed,
        "chosen": tried_of,
        "tried": len(verdicts),
        "fates": Counter(str(v.fate) for v in verdicts),
        "mutants": [
            {
                "file": v.mutant.path,
                "line": v.mutant.change.line,
                "change": v.mutant.change.shown,
                "fate": str(v.fate),
                "seconds": round(v.seconds, 2),
                "by": v.by,
                "tests": v.mutant.tests,
            }
            for v in verdicts
        ],
    }
    file.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


def _row(name: str, fates: Counter[Fate]) -> str:
    numbers = (fates[fate] for fate in (Fate.KILLED, Fate.TIMED_OUT, Fate.SURVIVED))
    killed, timed_out, survived = numbers
    return f"{name[:12]:12}{fates.total():>9}{killed:>9}{timed_out:>11}{survived:>10}"


def _counts(fates: Counter[Fate]) -> str:
    return ", ".join(f"{fates[fate]} {fate}" for fate in Fate)


def _wrapped(verdict: Verdict) -> list[str]:
    mutant = verdict.mutant
    place = f"{mutant.path}:{mutant.change.line}"
    if len(place) + len(mutant.change.shown) + 4 <= WIDTH:
        return [f"  {place}  {mutant.change.shown}"]
    shown = textwrap.wrap(mutant.change.shown, WIDTH - 6, break_on_hyphens=False)
    return [f"  {place}", *(f"      {line}" for line in shown)]
