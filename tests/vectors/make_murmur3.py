"""Ask a real Spark for the hashes that `lakebed.core.murmur3` must give; writes `murmur3.json` beside this file.

Run it once per Spark whose word is wanted: ``python tests/vectors/make_murmur3.py``. It needs Java.

A case is ``{"types", "rows", "hashes", "buckets"}``: Spark's names of the column types, the rows as lists of
carriers, ``hash(...)`` of each row and ``pmod(hash(...), n)`` by n. A carrier is what JSON can hold of a value:
an integer (also days and microseconds since 1970), a text (also of a decimal), the hex digits of a binary.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

TARGET = Path(__file__).with_name("murmur3.json")
BUCKET_COUNTS = (1, 2, 3, 7, 8, 100, 2**31 - 1)
SOME = random.Random(3)

Row = list[Any]


def integers(bits: int) -> list[int | None]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [low, low + 1, -1, 0, 1, 42, high - 1, high, *(SOME.randint(low, high) for _ in range(20)), None]


def texts() -> list[str | None]:
    by_length = ["abcdefghijklmnopq"[:n] for n in range(18)]
    unicode = [
        "ä",
        "aß",
        "日本語",
        "naïve café",
        "😀",
        "a😀b",
        "e\u0301",
        "\u00e9",
        "\0",
        "a\0b",
        "\ufffd",
        "\U0010ffff",
        " ",
    ]
    random_texts = ["".join(SOME.choices("abcäöü日本😀 \x7f", k=SOME.randint(0, 40))) for _ in range(40)]
    return [*by_length, *unicode, *random_texts, "x" * 1000, "é" * 501, " ", None]


def binaries() -> list[str | None]:
    by_length = [bytes(range(n)) for n in range(18)]
    high = [bytes(0xFF - i for i in range(n)) for n in range(18)]
    tails = [b"word" + bytes(tail) for tail in ([0x80], [0x7F, 0x80], [1, 2, 0xFF], [0xFF] * 3, [0x80, 0, 0x80])]
    some = [SOME.randbytes(SOME.randint(0, 70)) for _ in range(40)]
    return [*(value.hex() for value in (*by_length, *high, *tails, *some)), None]


def decimals(precision: int, scale: int) -> list[str | None]:
    top = 10**precision - 1
    edges = {0, 1, -1, top, -top, top - 1}
    # Where the shortest two's complement form grows by a byte.
    edges |= {sign * 2 ** (8 * n - 1) + by for n in range(1, 17) for sign in (1, -1) for by in (-1, 0, 1)}
    edges |= {SOME.randint(-(10**digits), 10**digits) for digits in range(1, precision + 1)}
    return [decimal_text(value, scale) for value in sorted(edges) if abs(value) <= top] + [None]


def decimal_text(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if unscaled < 0 else "") + whole + ("." + fraction if scale else "")


MICROS = [-(2**62), -62135596800000000, -86400000001, -1000001, -1, 0, 1, 999999, 1763164800123456, 253402300799999999]
DAYS = [-719162, -25567, -366, -1, 0, 1, 59, 19000, 20772, 2932896]
DECIMALS = ((1, 0), (9, 2), (10, 0), (18, 0), (18, 18), (19, 0), (20, 5), (28, 10), (38, 0), (38, 38))
# Spark's name of a type -> how Spark gets a value from its carrier, and the carriers.
SINGLE: dict[str, tuple[str, list[Any]]] = {
    "tinyint": ("cast({} as tinyint)", integers(8)),
    "smallint": ("cast({} as smallint)", integers(16)),
    "int": ("cast({} as int)", integers(32)),
    "bigint": ("{}", integers(64)),
    "boolean": ("{}", [True, False, None]),
    "date": ("date_from_unix_date(cast({} as int))", [*DAYS, None]),
    "timestamp": ("timestamp_micros({})", [*MICROS, None]),
    "timestamp_ntz": ("cast(timestamp_micros({}) as timestamp_ntz)", [*MICROS, None]),
    "string": ("{}", texts()),
    "binary": ("unhex({})", binaries()),
    **{
        f"decimal({precision},{scale})": (
            "cast({} as decimal(" + f"{precision},{scale}))",
            decimals(precision, scale),
        )
        for precision, scale in (
            (1, 0),
            (9, 2),
            (10, 0),
            (18, 0),
            (18, 18),
            (19, 0),
            (20, 5),
            (28, 10),
            (38, 0),
            (38, 38),
        )
    },
}

COMPOSITES = [
    ["bigint", "bigint"],
    ["string", "string"],
    ["int", "string"],
    ["string", "int"],
    ["binary", "decimal(38,0)"],
    ["decimal(28,10)", "string"],
    ["date", "timestamp", "boolean"],
    ["tinyint", "smallint", "int", "bigint"],
    ["string", "binary", "string", "binary", "string"],
    ["tinyint", "smallint", "int", "bigint", "boolean", "date", "timestamp", "string"],
    ["string", "binary", "decimal(9,2)", "decimal(38,0)", "timestamp_ntz", "date", "boolean", "bigint"],
    ["bigint"] * 8,
    ["string"] * 8,
]


def case(spark: SparkSession, types: list[str], rows: list[Row]) -> dict[str, Any]:
    frame = carriers(spark, types, rows)
    values = ", ".join(SINGLE[kind][0].format(f"c{i}") for i, kind in enumerate(types))
    buckets = [f"pmod(hash({values}), {n})" for n in BUCKET_COUNTS]
    found = frame.orderBy("at").selectExpr(f"hash({values})", *buckets).collect()
    nulls = frame.selectExpr("at", f"array({', '.join(f'isnull({v})' for v in split_values(types))}) as empty")
    for at, empty in nulls.collect():
        assert empty == [value is None for value in rows[at]], f"Spark did not take {rows[at]} as {types}"
    return {
        "types": types,
        "rows": rows,
        "hashes": [row[0] for row in found],
        "buckets": {str(n): [row[i] for row in found] for i, n in enumerate(BUCKET_COUNTS, 1)},
    }


def split_values(types: list[str]) -> list[str]:
    return [SINGLE[kind][0].format(f"c{i}") for i, kind in enumerate(types)]


def carriers(spark: SparkSession, types: list[str], rows: list[Row]) -> DataFrame:
    def carrier(kind: str) -> str:
        if kind == "boolean":
            return "boolean"
        return "string" if kind in ("string", "binary") or kind.startswith("decimal") else "bigint"

    columns = ", ".join(f"c{i} {carrier(kind)}" for i, kind in enumerate(types))
    return spark.createDataFrame([(at, *row) for at, row in enumerate(rows)], f"at bigint, {columns}")


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    cases = [case(spark, [kind], [[value] for value in values]) for kind, (_, values) in SINGLE.items()]
    for types in COMPOSITES:
        rows = [[SOME.choice(SINGLE[kind][1]) for kind in types] for _ in range(40)]
        cases.append(case(spark, types, [*rows, [None] * len(types)]))
    lines = ",\n".join(json.dumps(c, ensure_ascii=True, separators=(",", ":")) for c in cases)
    TARGET.write_text(f'{{"spark":"{spark.version}","cases":[\n{lines}\n]}}\n')
    spark.stop()


if __name__ == "__main__":
    main()
