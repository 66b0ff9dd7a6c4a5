"""Who takes part, and what each of them must be able to do."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

BUCKETS = 4
KEY = "id"
LEVEL = 1
"""Everybody compresses with zstd at this level, Lakebed's own."""

PEERS_PYTHON = Path(__file__).resolve().parents[2] / ".venv-peers" / "bin" / "python"


class Table(Protocol):
    """A table with a primary key, or what comes nearest to it, in a folder."""

    def __init__(self, folder: Path) -> None: ...

    def prepare(self, rows: pa.Table) -> Any:
        """The rows in the form that the contender takes best; not measured."""

    def load(self, rows: Any) -> None:
        """Make the table, with these prepared rows."""

    def open(self) -> None:
        """Get ready to use the table that is there, as a running reader or writer is; not measured."""

    def upsert(self, rows: Any) -> None:
        """Put prepared rows in, in place of those with the same key."""

    def read(self) -> Any:
        """All live rows in memory, as anything that Arrow can take."""


@dataclass(frozen=True)
class Contender:
    """Where the code of one contender is, and which interpreter runs it."""

    name: str
    module: str
    factory: str
    peer: bool = False
    """Whether it is another table format, which may be slow: its part of the work is bounded."""
    small_only: bool = False
    """Whether it is asked for the smaller upserts only: a single large one of pyiceberg would take most of an hour."""
    apart: bool = False
    """Whether it runs in the environment of the peers."""
    reader_of: Contender | None = None
    """Whose table it reads, if it has none of its own."""

    @property
    def home(self) -> Contender:
        """The contender whose table it uses."""
        return self.reader_of or self

    @property
    def python(self) -> str:
        """The interpreter."""
        return str(PEERS_PYTHON) if self.apart else sys.executable

    def table(self, folder: Path) -> Table:
        """The contender's table in the folder."""
        made: Table = getattr(importlib.import_module(self.module), self.factory)(folder)
        return made


POLARS = Contender("polars", "bench.peers.plain", "Polars")
POLARS_LZ4 = Contender("polars with lz4", "bench.peers.plain", "PolarsLz4", reader_of=POLARS)
POLARS_FLUSHED = Contender("polars + fsync", "bench.peers.plain", "PolarsFlushed")
POLARS_BUCKETS = Contender("polars in 4 files + fsync", "bench.peers.plain", "PolarsBuckets")
PYARROW = Contender("pyarrow", "bench.peers.plain", "Pyarrow", reader_of=POLARS)
ON_READ = Contender("lakebed on-read", "bench.peers.ours", "OnRead")
ON_WRITE = Contender("lakebed on-write", "bench.peers.ours", "OnWrite")
ON_READ_FRAME = Contender("lakebed on-read to_polars", "bench.peers.ours", "OnReadFrame", reader_of=ON_READ)
ON_WRITE_FRAME = Contender("lakebed on-write to_polars", "bench.peers.ours", "OnWriteFrame", reader_of=ON_WRITE)
EVERY_ROW = Contender("polars on the same files", "bench.peers.ours", "EveryRow", reader_of=ON_READ)
"""What polars needs for the files of the settled table, dead rows and all: no reader of them can be much faster."""
DELTALAKE = Contender("deltalake", "bench.peers.delta", "Delta", peer=True)
DELTALAKE_QUERY = Contender("deltalake query", "bench.peers.delta", "DeltaQuery", peer=True, reader_of=DELTALAKE)
PYPAIMON = Contender("pypaimon", "bench.peers.paimon", "Paimon", peer=True, apart=True)
PYPAIMON_RUST = Contender("pypaimon-rust", "bench.peers.paimon", "PaimonRust", peer=True, apart=True)
PYICEBERG = Contender("pyiceberg", "bench.peers.iceberg", "Iceberg", peer=True, small_only=True, apart=True)

PLAIN = (POLARS, POLARS_LZ4, POLARS_FLUSHED, POLARS_BUCKETS, PYARROW)
OURS = (ON_READ, ON_WRITE)
FRAMES = {ON_READ: ON_READ_FRAME, ON_WRITE: ON_WRITE_FRAME}
"""Who reads the same table into polars: what polars' own read is compared with."""
PEERS = (DELTALAKE, DELTALAKE_QUERY, PYPAIMON, PYPAIMON_RUST, PYICEBERG)
FORMATS = (DELTALAKE, PYPAIMON, PYPAIMON_RUST, PYICEBERG)
"""Those of the peers that have a table of their own."""
BY_NAME = {one.name: one for one in (*PLAIN, *OURS, *FRAMES.values(), EVERY_ROW, *PEERS)}


def peer_versions() -> dict[str, str]:
    """The versions of the packages that are compared with, as far as they are installed."""
    packages = ("pypaimon", "pypaimon-rust", "pyiceberg")
    code = f"from importlib.metadata import version; print(*map(version, {packages}))"
    found = {"deltalake": version("deltalake")}
    if PEERS_PYTHON.exists():
        texts = subprocess.run([PEERS_PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        found |= zip(packages, texts, strict=True)
    return found
