"""A contender's process, seen from the benchmark."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.spark_peers.contenders import ROOT, Contender
from bench.spark_peers.memory import Watch, tree

START_SECONDS = 600.0
"""How long a session may take to start."""


@dataclass(frozen=True)
class Session:
    """What every session gets."""

    cores: int = 2
    memory: str = "6g"


@dataclass
class Run:
    """What one run of a workload gave."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    checked: dict[str, str] = field(default_factory=dict)
    """What was compared with what must be there, and what both were."""
    said: list[str] = field(default_factory=list)
    """What a system answered when it refused something that it may refuse."""
    error: str = ""
    """Why its times do not count."""
    missing: bool = False
    """Whether the contender does not offer it; then that is no failure."""
    seconds: float = 0.0


class Worker:
    """A worker that waits for requests; it and all that it has started end with the context."""

    def __init__(self, contender: Contender, folder: Path, jars: Sequence[Path], given: Session, log: Path) -> None:
        self.contender = contender
        order = {
            "contender": contender.name,
            "folder": str(folder),
            "jars": [str(jar) for jar in jars],
            "cores": given.cores,
            "memory": given.memory,
        }
        self._log = log.open("a")
        self._process = subprocess.Popen(
            [str(contender.python), "-m", "bench.spark_peers.worker", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()
        self._watch = Watch(self._process.pid)
        self.spark = ""

    @property
    def alive(self) -> bool:
        """Whether it can be asked for more."""
        return self._process.poll() is None

    def ask(self, inputs: Path, workload: str, run: str, limit: float, *, flush: bool = True) -> Run:
        """One run of a workload; its failure is part of the answer. A worker that takes too long is ended."""
        assert self._process.stdin is not None
        found, begun = Run(), time.monotonic()
        try:
            request = {"inputs": str(inputs), "workload": workload, "run": run, "flush": flush}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            while self._take(found, self._next(limit - (time.monotonic() - begun))):
                pass
        except (TimeoutError, EOFError, BrokenPipeError) as error:
            self._kill()
            found.error = f"stopped after {limit:.0f} s" if isinstance(error, TimeoutError) else _died(self._process)
        found.seconds = time.monotonic() - begun
        return found

    def _take(self, found: Run, said: dict[str, Any]) -> bool:
        """Whether there is more to come."""
        if "begin" in said:
            self._watch.reset()
        elif "step" in said:
            found.steps.append({**said, "peak": self._watch.peak()})
        elif "note" in said:
            found.steps.append({"step": said["note"], "number": 0, **said["figures"]})
        elif "said" in said:
            found.said.append(said["said"])
        elif "checked" in said:
            found.checked[said["checked"]] = said["digest"]
        else:
            found.error = said.get("error") or said.get("missing") or ""
            found.missing = "missing" in said
            return False
        return True

    def _next(self, limit: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0.0, limit))
        except queue.Empty:
            raise TimeoutError from None
        if not line:
            raise EOFError
        said: dict[str, Any] = json.loads(line)
        return said

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def __enter__(self) -> Worker:
        """Wait until the session has started. Raises RuntimeError if it does not."""
        try:
            self.spark = self._next(START_SECONDS)["spark"]
        except (TimeoutError, EOFError, KeyError):
            self._close()
            raise RuntimeError(f"the session did not start; {self._log.name} says why") from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.alive:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                pass
        self._close()

    def _close(self) -> None:
        self._watch.close()
        self._kill()
        self._log.close()

    def _kill(self) -> None:
        if not self.alive:
            return
        for pid in reversed(tree(self._process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()


def _died(process: subprocess.Popen[str]) -> str:
    return f"the process died, exit code {process.wait()}"
