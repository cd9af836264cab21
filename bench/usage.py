"""The processor time of processes, from /proc."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float | None:
    """Of a process and all its descendants, those that have ended and were waited for included.
    None where the system does not tell."""
    if not Path(f"/proc/{pid}/stat").exists():
        return None
    children: dict[int, list[int]] = {}
    times: dict[int, tuple[int, int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (found := _stat(folder)) is not None:
            parent, own, waited_for = found
            children.setdefault(parent, []).append(int(folder.name))
            times[int(folder.name)] = (own, waited_for)
    total, open_ends = 0, [pid]
    while open_ends:
        process = open_ends.pop()
        total += sum(times.get(process, (0, 0)))
        open_ends += children.get(process, [])
    return total / _TICKS


def _stat(folder: Path) -> tuple[int, int, int] | None:
    """Parent, own ticks, and ticks of children that it has waited for."""
    try:
        text = (folder / "stat").read_text()
    except OSError:  # it has ended meanwhile
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
