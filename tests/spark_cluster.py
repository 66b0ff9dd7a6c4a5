"""A real cluster on loopback, from the pip package alone: a master, and two workers that count as two hosts."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

_JARS = Path(pyspark.__file__).parent / "jars"
_PATIENCE = 180.0


@contextmanager
def standalone_cluster(folder: Path, *, memory: str = "1g") -> Iterator[str]:
    """The master's URL. Each of the two workers has one core."""
    with ExitStack() as scope:
        master = folder / "master.log"
        scope.enter_context(
            _daemon(folder, master, "master.Master", ["--host", "127.0.0.1", "--port", "0"], "127.0.0.1")
        )
        url = _found(master, "Starting Spark master at ", "spark://")
        for host in ("127.0.0.1", "127.0.0.2"):
            log = folder / f"worker-{host}.log"
            arguments = ["--host", host, "--cores", "1", "--memory", memory, "--work-dir", str(folder / host), url]
            scope.enter_context(_daemon(folder, log, "worker.Worker", arguments, host))
            _found(log, "Successfully registered with master ", "spark://")
        yield url


@contextmanager
def _daemon(folder: Path, log: Path, name: str, arguments: list[str], host: str) -> Iterator[None]:
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
    command = [
        str(java),
        "-Xmx512m",
        "-Dspark.worker.timeout=600",
        "-cp",
        f"{_JARS}/*",
        f"org.apache.spark.deploy.{name}",
        "--webui-port",
        "0",
    ]
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": host,
        "SPARK_HOME": str(_JARS.parent),
        # Spark's start scripts set it; without it a worker looks for the directories of a build.
        "SPARK_SCALA_VERSION": "2.13",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments], stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _found(log: Path, before: str, start: str) -> str:
    """The URL that the log has after some words, once it has them."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        for line in log.read_text(errors="replace").splitlines():
            if before in line:
                return start + line.partition(before)[2].partition(start)[2].split()[0]
        time.sleep(0.05)
    raise TimeoutError(f"{log} does not say {before!r}: {log.read_text(errors='replace')[-2000:]}")
