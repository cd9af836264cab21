"""A campaign as a page to read, with its pictures."""

import platform
from collections import Counter
from pathlib import Path

from proof.campaigns import figures, ledger, plot
from proof.campaigns.checker import Kind
from proof.campaigns.setup import Result

_SHOWN = 10  # of each kind of wrong
_WORDS = {
    "good": "GOOD: nothing wrong was found",
    "wrong": "WRONG",
    "invalid": "INVALID: it proves nothing",
}


def write(folder: Path, result: Result, product: ledger.Product, command: str) -> Path:
    """report.md, delays.svg and around.svg; gives the page."""
    history = result.history
    delays = figures.since(history.began_at, result.judgement.delays)
    title = f"{result.setup.name}, seed {result.setup.seed}: start delay"
    over_time = plot.over_time(title, delays, history.faults, history.began_at)
    around = plot.around_faults(f"{title} around faults", delays, history.faults, history.began_at)
    (folder / "delays.svg").write_text(over_time)
    (folder / "around.svg").write_text(around)
    page = folder / "report.md"
    page.write_text(readable(result, product, command))
    return page


def readable(result: Result, product: ledger.Product, command: str) -> str:
    parts = [
        _head(result, product, command),
        _counts(result),
        _wrong(result),
        _faults(result),
        _delays(result),
        "![start delay over time](delays.svg)\n\n![start delay around faults](around.svg)\n",
    ]
    return "\n".join(part for part in parts if part)


def summary(result: Result) -> str:
    """In a few lines, for the terminal."""
    counts, setup, causes = result.judgement.counts, result.setup, _causes(result)
    struck = Counter(f.kind for f in result.history.faults if f.took_effect)
    lines = [
        f"{_WORDS[result.verdict]}: {setup.name}, {setup.seconds:g} s, seed {setup.seed}",
        "  faults  " + ", ".join(f"{count} {kind}" for kind, count in sorted(struck.items())),
        "  counts  " + ", ".join(f"{name} {count}" for name, count in counts.items() if count),
        *([f"  repeated starts by their cause: {causes}"] if causes else []),
        *(f"  invalid {reason}" for reason in result.invalid),
    ]
    for kind, finding in result.judgement.wrong.items():
        lines.append(f"  WRONG   {kind}: {finding.count}")
        lines += [f"          n={n}: {why}" for n, why in finding.first[:3]]
    if result.verdict == "good":
        lines.append(f"  so, with 95 % confidence, at most {_bound(result):.1e} of all tasks (3/n)")
    return "\n".join(lines)


def _causes(result: Result) -> str:
    """What each repeated start came from, as the judge explains it."""
    found = result.judgement.causes.items()
    return ", ".join(f"{kinds.replace('_', ' ')} {count}" for kinds, count in found)


def _bound(result: Result) -> float:
    return 3 / max(1, result.judgement.acknowledged)


def _head(result: Result, product: ledger.Product, command: str) -> str:
    setup, history = result.setup, result.history
    seconds = history.ended_at - history.began_at
    lines = [
        f"# {_WORDS[result.verdict]}",
        "",
        (
            f"- campaign `{setup.name}`, seed {setup.seed}, {setup.seconds:g} s of load at "
            f"{setup.rate:g} tasks a second, over after {seconds:.0f} s"
        ),
        f"- {setup.nodes} nodes, {setup.apis} API, lease {setup.lease:g} s"
        + (f", planted bug `{setup.mutant}`" if setup.mutant else ""),
        f"- commit {product.commit[:12]}, product tree {product.tree[:12]}"
        + (" with changes that are not committed" if product.dirty else ""),
        f"- Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        (
            f"- again: `{command}`; judge the same records again: "
            "`python -m proof.campaigns judge <this folder>`"
        ),
        *(f"- invalid: {reason}" for reason in result.invalid),
        "",
    ]
    if result.verdict == "good":
        lines += [
            (
                f"0 wrong in {result.judgement.acknowledged} acknowledged tasks: with 95 % "
                f"confidence at most {_bound(result):.1e} of all tasks (3/n) under such faults."
            ),
            "",
        ]
    return "\n".join(lines)


def _counts(result: Result) -> str:
    rows = [
        f"| {name.replace('_', ' ')} | {count} |" for name, count in result.judgement.counts.items()
    ]
    causes = _causes(result)
    return "\n".join(
        ["## Counts", "", "| what | how many |", "|---|---:|", *rows, ""]
        + ([f"Repeated starts by their cause: {causes}.", ""] if causes else [])
        + [f"- n = {n}: {why}" for n, why in result.judgement[Kind.START_EXPLAINED].first]
        + [""]
    )


def _wrong(result: Result) -> str:
    wrong = result.judgement.wrong
    if not wrong:
        return ""
    lines = ["## What is wrong", ""]
    for kind, finding in wrong.items():
        lines.append(f"- **{kind.replace('_', ' ')}**: {finding.count}")
        lines += [f"  - n = {n}: {why}" for n, why in finding.first[:_SHOWN]]
    return "\n".join([*lines, ""])


def _faults(result: Result) -> str:
    planned = Counter(p.kind for p in result.setup.planned())
    struck = Counter(f.kind for f in result.history.faults if f.took_effect)
    felt = figures.felt(result.judgement.delays, result.history.faults, result.history.lease)
    rows = []
    for kind in sorted(planned | struck):
        seen = felt.get(kind, figures.Felt(0, 0, 0.0, 0.0))
        rows.append(
            f"| {kind.replace('_', ' ')} | {planned[kind]} | {struck[kind]} | {seen.felt} | "
            f"{seen.p50:.2f} | {seen.most:.2f} |"
        )
    return "\n".join(
        [
            "## Faults",
            "",
            (
                "Felt: a task that was due while it lasted, or within a lease afterwards, started "
                "more than a second late. The seconds are from the fault to the last such start."
            ),
            "",
            "| kind | planned | took effect | felt | felt for, p50 | most (s) |",
            "|---|---:|---:|---:|---:|---:|",
            *rows,
            "",
        ]
    )


def _delays(result: Result) -> str:
    found = figures.by_circumstance(
        result.judgement.delays, result.history.faults, result.history.lease
    )
    rows = [
        f"| {kind.replace('_', ' ')} | {s.tasks} | {s.p50 * 1000:.0f} | {s.p99 * 1000:.0f} | "
        f"{s.most * 1000:.0f} |"
        for kind, s in found.items()
    ]
    return "\n".join(
        [
            "## Start delay",
            "",
            (
                "Of tasks due in calm, and of those due while a fault of a kind lasted or within a "
                "lease afterwards. A task can count for several kinds."
            ),
            "",
            "| due | tasks | p50 (ms) | p99 (ms) | most (ms) |",
            "|---|---:|---:|---:|---:|",
            *rows,
            "",
        ]
    )
