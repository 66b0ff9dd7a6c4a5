"""The machine that a benchmark runs on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def machine() -> dict[str, str]:
    """What the figures depend on."""
    system = f"{platform.system()} {platform.release()}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ("lakebed", "pyarrow", "polars", "SQLAlchemy", "psycopg")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB, {system}",
        "load at start": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in packages),
        "commit": _commit(),
    }


def _processor() -> str:
    """The model, as Linux tells it."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _commit() -> str:
    """Of Lakebed; with a mark if files differ from it."""
    order = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        return subprocess.run(order, cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
