"""Real servers of Spark on loopback, from the pip package alone: a master with two workers, and Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

_HOME = Path(pyspark.__file__).parent
_JARS = _HOME / "jars"
_SOURCE = Path(__file__).parents[1] / "src"
_PATIENCE = 180.0
_CONNECT = "org.apache.spark.sql.connect.service"


@contextmanager
def standalone_cluster(folder: Path, *, memory: str = "1g") -> Iterator[str]:
    """The master's URL. Each of the two workers, which count as two hosts, has one core."""
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
def connect_server(folder: Path, settings: Mapping[str, str], master: str = "local[2]") -> Iterator[str]:
    """The URL of a Spark Connect server, whose Python workers have this Lakebed."""
    log = folder / "connect.log"
    chosen = {**settings, "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}
    command = [str(_HOME / "bin" / "spark-submit"), "--class", f"{_CONNECT}.SparkConnectServer", "--master", master]
    for name, value in chosen.items():
        command += ["--conf", f"{name}={value}"]
    environment = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_SOURCE), "SPARK_LOCAL_IP": "127.0.0.1"}
    with _process([*command, "spark-internal"], log, environment, folder):
        yield "sc://" + _found(log, "Spark Connect server started at: ", "127.0.0.1:")


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
    # Spark's start scripts set the version; without it a worker looks for the directories of a build.
    with _process([*command, *arguments], log, {"SPARK_LOCAL_IP": host, "SPARK_SCALA_VERSION": "2.13"}, folder):
        yield


@contextmanager
def _process(command: list[str], log: Path, environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SPARK_HOME": str(_HOME), **environment},
            cwd=folder,
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
