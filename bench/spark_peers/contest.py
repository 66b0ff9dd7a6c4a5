"""One run of the benchmark: inputs, then every contender with every workload."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.spark_peers import inputs
from bench.spark_peers.contenders import ROOT, Contender
from bench.spark_peers.found import Found
from bench.spark_peers.jars import JarsMissingError, fetch
from bench.spark_peers.places import Places
from bench.spark_peers.process import Session, Worker
from bench.spark_peers.sizes import Sizes
from bench.spark_peers.workloads.names import named


@dataclass(frozen=True)
class Options:
    """How much is done, by whom."""

    sizes: Sizes
    workloads: list[str]
    contenders: list[Contender]
    runs: int = 3
    patience: float | None = None
    """Whoever takes longer than so many seconds for a run of a workload has done it with that one."""
    limit: float = 3600.0
    """Seconds after which a run is stopped."""
    apart: bool = True
    """Whether every workload has a process of its own, so that its memory is its own, too."""
    memory: str = "6g"
    cores: int = 2


class Contest:
    """The contenders, one after the other, in a folder."""

    def __init__(
        self, root: Path, options: Options, console: Console, keep: Callable[[Found], None] = lambda _: None
    ) -> None:
        """``keep`` gets what was found so far after every contender: a long run that is cut off is not lost."""
        self._root = root
        self._options = options
        self._console = console
        self._keep = keep
        self._warm, self._real = Places(root / "inputs-warm"), Places(root / "inputs")
        self._begun = time.monotonic()

    def run(self, facts: dict[str, str]) -> Found:
        """Everything; who fails is in what was found, and ends nothing."""
        options = self._options
        found = Found(facts, options.sizes.to_json())
        self._say(f"input: {options.sizes.rows:,} rows, for {', '.join(options.workloads)}")
        self._root.mkdir(parents=True, exist_ok=True)
        inputs.make(self._warm, Sizes.warm(), options.workloads)
        inputs.make(self._real, options.sizes, options.workloads)
        if "tpch" in options.workloads:
            fresh = options.apart or options.workloads[0] == "tpch"
            roots = [str(places.root) for places in ((self._warm, self._real) if fresh else (self._real,))]
            subprocess.run([sys.executable, "-m", "bench.spark_peers.answers", *roots], check=True, cwd=ROOT)
        # Workload by workload, so that those who are compared with each other run close to each other.
        groups = [[one] for one in options.workloads] if options.apart else [options.workloads]
        for workloads in groups:
            for contender in options.contenders:
                self._contender(found, contender, workloads)
                found.facts["took"] = _minutes(time.monotonic() - self._begun)
                self._keep(found)
        return found

    def _contender(self, found: Found, contender: Contender, workloads: list[str]) -> None:
        left = list(workloads)
        while left:
            try:
                with self._worker(found, contender) as worker:
                    fresh = True
                    while left and worker.alive:
                        self._workload(found, worker, left.pop(0), fresh=fresh)
                        fresh = False
            except (JarsMissingError, RuntimeError) as error:
                found.absent[contender.name] = str(error)
                self._say(f"{contender.name} does not take part: {error}")
                return

    def _workload(self, found: Found, worker: Worker, workload: str, *, fresh: bool) -> None:
        """A warm-up, and the runs; a run that fails is not tried again."""
        name, options = worker.contender.name, self._options
        if fresh or named(workload).warms_up:
            warm = worker.ask(self._warm.root, workload, "warm", options.limit, flush=False)
            self._say(f"{workload}, {name}, warm-up: {warm.error or f'{warm.seconds:.1f} s'}")
            if warm.error:
                found.add(workload, name, warm)
                return
        for number in range(options.runs):
            run = worker.ask(self._real.root, workload, str(number), options.limit)
            found.add(workload, name, run)
            self._say(f"{workload}, {name}, run {number + 1}: {run.error or f'{run.seconds:.1f} s'}")
            if run.error or (options.patience is not None and run.seconds > options.patience):
                break

    @contextmanager
    def _worker(self, found: Found, contender: Contender) -> Iterator[Worker]:
        if not contender.python.exists():
            raise RuntimeError(f"{contender.python} is missing; `make bench-peers` makes it")
        jars = fetch(contender.jars, alone=contender.bundle)
        folder = self._root / contender.slug
        session = Session(self._options.cores, self._options.memory)
        log = self._root / f"{contender.slug}.log"
        try:
            with Worker(contender, folder, jars, session, log) as worker:
                found.contenders[contender.name] = {
                    "spark": worker.spark,
                    "jars": ", ".join(contender.jars),
                    "how": contender.how,
                }
                yield worker
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _say(self, text: str) -> None:
        shown = f"{time.monotonic() - self._begun:7.0f} s  {text}"
        self._console.print(shown, style="dim", highlight=False, markup=False)


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f}:{seconds % 60:02.0f} min"


def java() -> str:
    """What ``java -version`` says first."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return (said.stderr or said.stdout).splitlines()[0] if said.returncode == 0 else "unknown"
