"""An online shop on Lakebed, in about a minute: `make demo`. Every number is checked; the exit code tells."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack
from pathlib import Path

from shop_demo.chapters import Demo
from shop_demo.screen import Screen, WrongNumber
from shop_demo.shop import Feed
from shop_demo.streams import Loops, NoSpark, Streams, session

import lakebed


def main(arguments: list[str] | None = None, screen: Screen | None = None) -> int:
    """Run the demo; 1 if a number is wrong, 2 if Spark does not start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-spark", action="store_true", help="run in this process; needs no Java")
    parser.add_argument("--keep", metavar="DIR", help="leave the warehouse there, to look at it afterwards")
    given = parser.parse_args(arguments)
    screen = screen or Screen()
    screen.console.print("[bold]Lakebed[/]: an online shop, from change records to totals.")
    root = Path(given.keep or tempfile.mkdtemp(prefix="lakebed-demo-")).absolute()
    root.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    try:
        run(screen, root, with_spark=not given.without_spark)
    except WrongNumber as wrong:
        screen.console.print(f"\n[bold red]A number is wrong.[/] {wrong}")
        return 1
    except NoSpark as missing:
        screen.console.print(f"\n[bold red]Spark does not start.[/] {missing}")
        return 2
    finally:
        if given.keep is None:
            shutil.rmtree(root, ignore_errors=True)
    screen.console.print(f"\n[bold green]{screen.checks} checks, all right,[/] in {time.perf_counter() - begun:.0f} s.")
    return 0


def run(screen: Screen, root: Path, *, with_spark: bool) -> None:
    """The chapters, in a warehouse below ``root``."""
    warnings.filterwarnings("ignore", category=ResourceWarning)
    with ExitStack() as stack:
        spark = None
        if with_spark:
            with screen.working("Spark starts"):
                spark = stack.enter_context(session(root / "spark.log"))
        lake = stack.enter_context(lakebed.connect(root / "warehouse", spark=spark, progress=False))
        feed = Feed(root / "feed")
        Demo(screen, lake, Streams(spark, feed, root / "checkpoints") if spark else Loops(feed), feed).run()


if __name__ == "__main__":
    sys.exit(main())
