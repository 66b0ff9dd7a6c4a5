"""Primary-key tables without Spark: upserts, reads after them and settle, against plain Parquet and other tables.

Every contender has the same ten million rows in four buckets and gets the same ten batches of random keys, first of
200,000 rows each, then of 2,000,000. A phase of a contender is a process of its own, so memory peaks are those of the
phase. They take turns, upsert by upsert and read by read, so that a machine whose speed varies slows all of them. What
each read returned is compared with the rows that must be there; a wrong one ends the benchmark.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.machine import machine
from bench.peers import state
from bench.peers.contenders import (
    BY_NAME,
    EVERY_ROW,
    FORMATS,
    FRAMES,
    ON_READ,
    OURS,
    PEERS,
    PLAIN,
    POLARS,
    POLARS_BUCKETS,
    POLARS_FLUSHED,
    POLARS_LZ4,
    PYARROW,
    Contender,
    peer_versions,
)
from bench.peers.plain import LIVE
from bench.peers.process import Process, Taken
from bench.report import Line, render
from bench.servers import scratch
from bench.upsert_publish import DOCS, load, publish, save
from bench.upsert_report import Found, lines, render_times
from bench.workers import ask

ROWS = 10_000_000
SIZES = (200_000, 2_000_000)
UPSERTS = 10
STATE = "bench.peers.state"
PEER_RETRY_SECONDS = 60.0
"""A peer whose reads took this long is not asked to read again."""


@dataclass(frozen=True)
class Options:
    """How much is done."""

    scale: float = 1.0
    upserts: int = UPSERTS
    tries: int = 3
    """How often the cheap phases (reads, settle, upserts of Lakebed and of plain files) are done; the best counts."""
    peer_upserts: int = 2
    """How many upserts of the larger size other table formats do; a slow one would take hours otherwise."""
    peer_seconds: float = 900.0
    """A peer that has spent this long on upserts of a size gets no further turn with them."""
    contenders: tuple[str, ...] = tuple(BY_NAME)

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return int(ROWS * self.scale)

    @property
    def sizes(self) -> list[int]:
        """Rows of an upsert."""
        return [int(size * self.scale) for size in SIZES]

    def turns(self, contender: Contender, size: int) -> int:
        """How many upserts of this size a contender does."""
        if contender.small_only and size == self.sizes[-1]:
            return 0
        return min(self.peer_upserts, self.upserts) if contender.peer and size == self.sizes[-1] else self.upserts


@dataclass
class Contest:
    """One run of the benchmark, in a folder."""

    root: Path
    options: Options
    console: Console
    found: Found = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = self.root / "inputs"
        self.found = Found(self.options.rows, self.options.sizes, self.options.upserts)
        self._expected: dict[tuple[int, int], dict[str, Any]] = {}

    def run(self) -> Found:
        """Make the input, load everybody's table, and do both sizes."""
        options = self.options
        self._say(f"input: {options.rows:,} rows, {options.upserts} upserts each of {options.sizes}")
        order = {"count": options.rows, "sizes": options.sizes, "upserts": options.upserts}
        self.found.input_bytes = ask(STATE, {"do": "make", "folder": str(self.inputs), **order})
        for contender in self._present((POLARS, *OURS, *FORMATS)):
            self._load(contender)
        for size in options.sizes:
            for contender in self._present((*OURS, *FORMATS)):
                self._restore(contender, "loaded")
            self._size(size)
        return self.found

    def _size(self, size: int) -> None:
        """Upsert, read what is unsettled, settle, read, compact, read."""
        self._upserts(size)
        self._expect(size, self.options.upserts, live=self._folder(POLARS) / LIVE)
        self._reads(size, "read", (POLARS, POLARS_LZ4, PYARROW, *OURS, *FRAMES.values(), *PEERS))
        if self._present((ON_READ,)):
            self._save(ON_READ, "unsettled")
            for number in range(self.options.tries):
                if number:
                    self._restore(ON_READ, "unsettled")
                self._once(size, ON_READ, "settle")
            self._reads(size, "read settled", (POLARS, PYARROW, ON_READ, FRAMES[ON_READ], EVERY_ROW))
            self._once(size, ON_READ, "compact")
            self._reads(size, "read compacted", (POLARS, PYARROW, ON_READ, FRAMES[ON_READ]))

    def _load(self, contender: Contender) -> None:
        self._say(f"load: {contender.name}")
        shutil.rmtree(self._folder(contender), ignore_errors=True)
        with self._process(contender, "load") as process:
            self.found.taken(0, "load", contender).add(process.ask(input=str(state.base(self.inputs))))
        if contender is not POLARS:
            self._save(contender, "loaded")

    def _upserts(self, size: int) -> None:
        """All of a size, several times from the start; of each contender the time in which it was fastest counts.

        Other table formats, which are slow, do theirs once, in the turns of the first time.
        """
        for attempt in range(self.options.tries):
            for contender in self._present(OURS) if attempt else ():
                self._restore(contender, "loaded")
            plain = (POLARS, POLARS_LZ4, POLARS_FLUSHED, POLARS_BUCKETS)
            entered = self._present((*plain, *OURS) if attempt else (*plain, *OURS, *FORMATS))
            for contender, taken in self._turns(size, entered).items():
                self.found.better(size, "upsert", contender, taken)

    def _turns(self, size: int, entered: Sequence[Contender]) -> dict[Contender, Taken]:
        """One upsert by each, then the next; those that are slow drop out early."""
        taken = {contender: Taken() for contender in entered}
        with ExitStack() as stack:
            for contender in (one for one in entered if one in PLAIN):
                self._folder(contender).mkdir(exist_ok=True)
            processes = [stack.enter_context(self._process(one, "upsert")) for one in entered]
            for number in range(self.options.upserts):
                for process in processes:
                    mine = taken[process.contender]
                    if number < self.options.turns(process.contender, size) and not self._spent(process, mine):
                        mine.add(process.ask(input=str(state.batch(self.inputs, size, number))))
                self._say(f"upsert {number + 1} of {size:,} rows")
        return taken

    def _spent(self, process: Process, taken: Taken) -> bool:
        return process.contender.peer and taken.total > self.options.peer_seconds

    def _reads(self, size: int, phase: str, contenders: Iterable[Contender]) -> None:
        """A fresh process for each read, in turns: what a process keeps of a version is not there yet."""
        for number in range(self.options.tries):
            for contender in self._present(contenders):
                taken = self.found.taken(size, phase, contender)
                if contender.peer and (taken.total > PEER_RETRY_SECONDS or not self.found.done(size, contender)):
                    continue
                dump = self.root / "dump.arrow" if number == 0 and contender is not EVERY_ROW else None
                with self._process(contender, "read") as process:
                    taken.add(process.ask(dump=None if dump is None else str(dump)))
                    if not contender.peer:
                        self.found.taken(size, f"{phase} again", contender).add(process.ask())
                if dump is not None:
                    self._check(size, phase, contender, dump)
        self._say(f"{phase} after upserts of {size:,} rows: all rows are right")

    def _once(self, size: int, contender: Contender, verb: str) -> None:
        with self._process(contender, verb) as process:
            self.found.taken(size, verb, contender).add(process.ask())
        self._say(f"{verb} of {contender.name}")

    def _expect(self, size: int, upserts: int, live: Path | None = None) -> dict[str, Any]:
        """The digest of the rows after so many upserts."""
        if (size, upserts) not in self._expected:
            order = {"size": size, "upserts": upserts, "live": None if live is None else str(live)}
            self._expected[size, upserts] = ask(STATE, {"do": "expect", "folder": str(self.inputs), **order})
        return self._expected[size, upserts]

    def _check(self, size: int, phase: str, contender: Contender, dump: Path) -> None:
        done = self.options.upserts if contender in PLAIN else self.found.done(size, contender)
        expected = self._expect(size, done)
        read = ask(STATE, {"do": "digest", "folder": str(self.inputs), "path": str(dump)})
        dump.unlink()
        if read != expected:
            raise RuntimeError(
                f"{contender.name}, {phase} after {done} upserts of {size:,} rows: the rows are wrong\n"
                f"expected: {expected}\nfound:    {read}"
            )
        self.found.live_rows[size, done] = expected["rows"]

    def _present(self, contenders: Iterable[Contender]) -> list[Contender]:
        return [one for one in contenders if one.name in self.options.contenders]

    def _process(self, contender: Contender, verb: str) -> Process:
        return Process(contender, verb, self._folder(contender), state.warm(self.inputs))

    def _folder(self, contender: Contender) -> Path:
        return self.root / contender.home.name.replace(" ", "-")

    def _save(self, contender: Contender, name: str) -> None:
        shutil.rmtree(self._kept(contender, name), ignore_errors=True)
        shutil.copytree(self._folder(contender), self._kept(contender, name))

    def _restore(self, contender: Contender, name: str) -> None:
        """Put a kept state back, at the path where it was made: it may be written in the files."""
        shutil.rmtree(self._folder(contender))
        shutil.copytree(self._kept(contender, name), self._folder(contender))

    def _kept(self, contender: Contender, name: str) -> Path:
        folder = self._folder(contender)
        return folder.with_name(f"{folder.name}.{name}")

    def _say(self, text: str) -> None:
        self.console.print(text, style="dim", highlight=False)


def run(*, quick: bool) -> list[Line]:
    """The whole benchmark, or a hundredth of it."""
    console = Console(stderr=True)
    found = measure(Options(scale=0.01, tries=1) if quick else Options(), console)
    render_times(Console(width=140), found)
    return lines(found)


def measure(options: Options, console: Console) -> Found:
    """Run it in a folder that is deleted at the end."""
    present = [name for name in options.contenders if Path(BY_NAME[name].python).exists()]
    for name in sorted(set(options.contenders) - set(present)):
        console.print(f"{name} does not take part: its environment is missing, `make peers` makes it", style="red")
    with scratch("upserts") as root:
        return Contest(root, replace(options, contenders=tuple(present)), console).run()


def main() -> int:
    """The command line; the exit code is 1 if a goal was missed."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    console = Console(width=None if sys.stdout.isatty() else 140)
    if arguments.reuse is None:
        peers = ", ".join(f"{name} {version}" for name, version in peer_versions().items())
        facts = {**machine(), "peers": peers}
        found = measure(_options(arguments), console)
        save(arguments.output, facts, found)
    facts, found = load(arguments.reuse or arguments.output)
    for name, text in facts.items():
        console.print(f"{name:>14}: {text}", highlight=False)
    render_times(console, found)
    judged = lines(found)
    render(console, "Primary-key tables", judged)
    if arguments.publish:
        for path in publish(arguments.reuse or arguments.output, arguments.docs):
            console.print(f"written: {path}", highlight=False)
    if found.rows < ROWS:
        console.print(f"The goals are for {ROWS:,} rows; so few show fixed costs, and the exit code ignores them.")
        return 0
    return int(any(line.met is False for line in judged))


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        scale=arguments.scale,
        upserts=arguments.upserts,
        tries=arguments.tries,
        peer_upserts=arguments.peer_upserts,
        peer_seconds=arguments.peer_seconds,
        contenders=tuple(arguments.contenders.split(",")),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.upserts", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="part of ten million rows; 0.01 to see that it runs")
    parser.add_argument("--upserts", type=int, default=UPSERTS, help="upserts of each size")
    parser.add_argument("--tries", type=int, default=3, help="tries of the cheap phases; the best counts")
    parser.add_argument("--peer-upserts", type=int, default=2, help="upserts of the larger size by other formats")
    parser.add_argument("--peer-seconds", type=float, default=900.0, help="no further turn for a peer after this long")
    parser.add_argument("--contenders", default=",".join(BY_NAME), help="who takes part, with commas between")
    parser.add_argument("--output", type=Path, default=_results("latest"), help="where the figures go, as JSON")
    parser.add_argument("--reuse", type=Path, help="show (or publish) the figures of this file; measure nothing")
    parser.add_argument("--publish", action="store_true", help="put the table and the chart in the docs")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of the docs")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.contenders.split(",")) - set(BY_NAME))
    if unknown:
        parser.error(f"no contender {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    return arguments


def _results(name: str) -> Path:
    return Path(__file__).parent / "results" / f"upserts-{name}.json"


if __name__ == "__main__":
    raise SystemExit(main())
