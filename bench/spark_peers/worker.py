"""A process that runs workloads of one contender, request by request.

An order on the command line names the contender and its folder. Each line on the standard input asks for a run of a
workload; on the standard output come, as JSON, the steps as they happen, and how the run ended.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from bench.spark_peers.contenders import BY_NAME
from bench.spark_peers.engines.engine import NotOfferedError
from bench.spark_peers.places import Places
from bench.spark_peers.session import session
from bench.spark_peers.sizes import Sizes
from bench.spark_peers.work import Work

_ADDRESS = re.compile(r"\w+:/+[^\s)\]]+|/[\w.-]+/[^\s)\],]+")
"""Of a server, or a path of this machine."""


def main(order: dict[str, Any]) -> None:
    """Answer until the standard input ends."""
    answers = _own_output()

    def tell(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=answers, flush=True)

    contender, root = BY_NAME[order["contender"]], Path(order["folder"])
    root.mkdir(parents=True, exist_ok=True)
    kind = contender.kind()
    spark = session(root, kind.settings, order["jars"], cores=order["cores"], memory=order["memory"])
    engine = kind(spark, root)
    digests: dict[str, list[Any]] = {}
    tell({"ready": True, "spark": spark.version})
    for line in sys.stdin:
        request = json.loads(line)
        places = Places(Path(request["inputs"]))
        sizes = Sizes(**json.loads((places.root / "sizes.json").read_text()))
        name = f"{request['workload']}_{request['run']}"
        work = Work(spark, engine, places, sizes, tell, name, request["flush"], digests)
        module = importlib.import_module(f"bench.spark_peers.workloads.{request['workload']}")
        tell(_ended(lambda run=module.run, work=work: run(work)))  # type: ignore[misc]
    spark.stop()


def _ended(act: Callable[[], None]) -> dict[str, Any]:
    try:
        act()
    except NotOfferedError as error:
        return {"missing": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"error": said(error)}
    return {"done": True}


def said(error: Exception) -> str:
    """What is wrong in a few lines, without addresses and without the stack of Java."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("at ", "JVM stacktrace", "..."))][:4]
    return _ADDRESS.sub("…", f"{type(error).__name__}: {' '.join(kept)}")[:600]


def _own_output() -> TextIO:
    """The standard output for answers only: what a library prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
