"""The machine: Python, its packages, Java and Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from lakebed.doctor.finding import Finding, error, fine, warning

_OLDEST_PYTHON = (3, 11)
_OLDEST_JAVA = 17
_OLDEST_SPARK = (4, 1)
_JAVA_FIX = f"install Java {_OLDEST_JAVA} or newer, and set JAVA_HOME to its directory"
# The distribution, and what is lost without it; None for what Lakebed cannot do without.
_PACKAGES: Mapping[str, str | None] = {
    "pyarrow": None,
    "polars": None,
    "SQLAlchemy": None,
    "psycopg": None,
    "sqlglot": None,
    "pyroaring": None,
    "pyspark": "Spark",
    "duckdb": "SELECT without Spark at its fastest",
    "pandas": "to_pandas()",
}


def examine_environment(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Python, packages, Java and Spark, of which the last two matter only if pyspark is installed."""
    yield _python()
    yield from (_package(name, use) for name, use in _PACKAGES.items())
    if _version("pyspark") is not None:
        yield _spark()
        yield _java(environ)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _OLDEST_PYTHON:
        wanted = ".".join(map(str, _OLDEST_PYTHON))
        return error("python", sys.executable, f"Python {found} is too old", f"use Python {wanted} or newer")
    return fine("python", sys.executable, f"Python {found}")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str, use: str | None) -> Finding:
    version = _version(name)
    if version is not None:
        return fine("package", name, version)
    if use is None:
        return error("package", name, "is not installed", f"pip install {name}")
    return fine("package", name, f"not installed; only {use} needs it")


def _spark() -> Finding:
    found = _version("pyspark") or ""
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if numbers < _OLDEST_SPARK:
        wanted = ".".join(map(str, _OLDEST_SPARK))
        return error("spark", "pyspark", f"version {found} is too old", f"pip install 'pyspark>={wanted}'")
    return fine("spark", "pyspark", f"version {found}")


def _java(environ: Mapping[str, str]) -> Finding:
    home = environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH"))
    if path is None:
        return warning("java", "java", "Spark needs Java, and none is on the PATH; JAVA_HOME is not set", _JAVA_FIX)
    if home and not os.access(path, os.X_OK):
        return warning("java", home, "JAVA_HOME has no bin/java that can be run", _JAVA_FIX)
    try:
        ran = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return warning("java", path, f"does not run: {problem}", _JAVA_FIX)
    told = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    if told is None:
        return warning("java", path, "does not say its version", _JAVA_FIX)
    if int(told[1]) < _OLDEST_JAVA:
        return warning("java", path, f"Java {told[1]} is too old for Spark 4", _JAVA_FIX)
    return fine("java", path, f"Java {told[1]}")
