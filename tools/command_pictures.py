"""Pictures of commands for docs/commands.md: run them on a made-up shop, and keep the screen as SVG.

python tools/command_pictures.py        writes docs/images/show.svg, history.svg and shell.svg
"""

from __future__ import annotations

import html
import io
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

import lakebed
from lakebed.cli import failure, screen
from lakebed.cli.main import app
from lakebed.cli.querying import Output, run_statement
from lakebed.cli.screen import Cell

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
WIDTH = 104
STATEMENTS = (
    [
        "SELECT customer, count(*) AS orders,",
        "       round(sum(amount), 2) AS total",
        "FROM shop.orders GROUP BY 1 ORDER BY 3 DESC;",
    ],
    ["SELECT version, operation FROM shop.orders$history LIMIT 2;"],
    ["SELECT amout FROM shop.ordres;"],
)


def make_shop(root: Path) -> None:
    """Orders that came in several batches, of which the last ones wait to be settled."""
    random.seed(7)
    begin = datetime(2026, 11, 15, tzinfo=UTC)

    def orders(numbers: range) -> list[dict[str, object]]:
        return [
            {
                "id": number,
                "customer": random.choice(("ann", "bob", "eve")),
                "amount": round(random.random() * 100, 2),
                "at": begin + timedelta(seconds=number),
            }
            for number in numbers
        ]

    with lakebed.connect(root) as lake:
        lake.create_namespace("shop")
        table = lake.create_table(
            "shop.orders",
            "id BIGINT, customer STRING, amount DOUBLE COMMENT 'in euro, with tax', at TIMESTAMP",
            primary_key=["id"], buckets=6, merge="on-read", comment="orders of the shop",
        )  # fmt: skip
        table.upsert(orders(range(40_000)))
        table.settle()
        table.tag("eod")
        table.upsert(orders(range(0, 40_000, 5)))
        table.settle()
        table.delete("amount < 5")
        table.update({"amount": "amount * 0.9"}, where="customer = 'eve' and id < 500")
        table.upsert(orders(range(40_000, 46_000)))
        table.upsert(orders(range(3)))


def picture(name: str, title: str, act: Callable[[], object]) -> None:
    """What ``act`` shows on a terminal, as a file."""
    console = Console(record=True, width=WIDTH, force_terminal=True, color_system="truecolor", file=io.StringIO())
    real = screen.console, screen.is_terminal, failure.is_terminal
    screen.console = lambda _stream=None: console  # type: ignore[assignment]
    screen.is_terminal = failure.is_terminal = lambda _stream: True  # type: ignore[assignment]
    try:
        act()
    finally:
        screen.console, screen.is_terminal, failure.is_terminal = real
    text = console.export_svg(title=title)
    # The page must not fetch fonts from elsewhere; every system has a monospaced one.
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL).replace("Fira Code", "monospace")
    text = _TEXT.sub(_without_leading_blanks, text)
    (IMAGES / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE), "utf-8")


_TEXT = re.compile(r'x="([\d.]+)"([^>]*) textLength="([\d.]+)"([^>]*)>((?:&#160;)+)([^<]*)<')


def _without_leading_blanks(found: re.Match[str]) -> str:
    """Some viewers drop blanks at the beginning of a text: say where it begins instead."""
    x, before, length, after, blanks, rest = found.groups()
    count = blanks.count(";")
    letters = count + len(html.unescape(rest))
    shift = float(length) * count / letters
    kept = f"{float(length) - shift:.1f}"
    return f'x="{float(x) + shift:.1f}"{before} textLength="{kept}"{after}>{rest}<'


def shell(root: Path) -> None:
    """A short session."""
    with lakebed.connect(root) as lake:
        for lines in STATEMENTS:
            for number, line in enumerate(lines):
                screen.say(Cell("lakebed> " if number == 0 else "      -> ", "green"), line)
            try:
                run_statement(lake, "\n".join(lines).rstrip(";"), Output(timing=True))
            except lakebed.LakebedError as error:
                failure.tell(error)


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        root = Path(folder) / "lake"
        make_shop(root)
        os.environ["LAKEBED_WAREHOUSE"] = str(root)
        os.chdir(folder)
        picture("show", "lakebed show shop.orders", lambda: app(["show", "shop.orders"], standalone_mode=False))
        picture(
            "history", "lakebed history shop.orders", lambda: app(["history", "shop.orders"], standalone_mode=False)
        )
        picture("shell", "lakebed sql", lambda: shell(root))
    sys.stdout.write(f"written to {IMAGES}\n")


if __name__ == "__main__":
    main()
