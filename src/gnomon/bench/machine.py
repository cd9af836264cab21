"""What figures depend on."""

import os
import platform
from pathlib import Path
from typing import Any

from gnomon.version import VERSION


def machine() -> dict[str, Any]:
    """The machine that measures, and the versions of what is measured."""
    return {
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "gnomon": VERSION,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
