"""Dead rows as Spark looks them up: one array with a bit for each row of each file, in 64-bit words.

It is a constant, or the value of a scalar subquery, so that finding a row's bit is indexing an array, and nothing is
joined. Each task gets a copy of it; when that would be too much, ``dead_blocks`` has another form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from lakebed.storage.deletion_vector import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

MOST_BYTES = 16 * 1024 * 1024
"""The words of a scan that are worth a copy for each task: those of a hundred million rows."""
FEW_BYTES = 32 * 1024
"""Up to so many they are part of the plan, which spares the job of a subquery: those of a quarter of a million rows."""
WORD_BITS = 6
WORD_ROWS = 1 << WORD_BITS


@dataclass(frozen=True)
class HoledFile:
    """The dead rows of a file, and how many rows it has."""

    dead: BitMap64
    rows: int

    @property
    def words(self) -> int:
        """How many words have a bit for each of its rows."""
        return -(-max(self.rows, self.dead.max() + 1 if self.dead else 0) // WORD_ROWS)


@dataclass(frozen=True)
class DeadWords:
    """The words of all files of a scan, one file after the other."""

    files: Sequence[HoledFile]

    @property
    def num_bytes(self) -> int:
        """The size of all words."""
        return sum(file.words for file in self.files) * WORD_ROWS // 8

    @property
    def firsts(self) -> list[int]:
        """Where the words of each file begin.

        >>> DeadWords([HoledFile(BitMap64([0]), 65), HoledFile(BitMap64([1]), 3)]).firsts
        [0, 2]
        """
        return [0, *accumulate(file.words for file in self.files)][:-1]

    def array(self) -> pa.Int64Array:
        """The words.

        >>> DeadWords([HoledFile(BitMap64([0, 64]), 65), HoledFile(BitMap64([1]), 3)]).array().to_pylist()
        [1, 1, 2]
        """
        return pa.concat_arrays([_words(file) for file in self.files])

    def text(self) -> str:
        """The array of the words as SQL, which Spark folds to a constant.

        >>> DeadWords([HoledFile(BitMap64([0]), 65)]).text()
        "from_json('[1,0]', 'array<bigint>')"
        """
        return numbers(self.array().to_pylist())

    def column(self, session: SparkSession) -> Column:
        """The array of the words, the same for every row."""
        from pyspark.sql.types import ArrayType, LongType, StructField, StructType

        words = self.array()
        row = pa.ListArray.from_arrays(pa.array([0, len(words)], pa.int32()), words)
        # Spark looks for nulls among the words unless it knows that there are none.
        schema = StructType([StructField("words", ArrayType(LongType(), containsNull=False), nullable=False)])
        return session.createDataFrame(pa.table([row], names=["words"]), schema).scalar()


def numbers(values: Sequence[int]) -> str:
    """An array of whole numbers as SQL, which Spark folds to a constant; ``array(…)`` would be an expression for each.

    >>> numbers([1, -2])
    "from_json('[1,-2]', 'array<bigint>')"
    """
    return f"from_json('[{','.join(map(str, values))}]', 'array<bigint>')"


def _words(file: HoledFile) -> pa.Int64Array:
    bits = np.zeros(file.words * WORD_ROWS, np.uint8)
    bits[to_arrow(file.dead).to_numpy()] = 1
    words = np.packbits(bits, bitorder="little").view("<i8")
    return pa.array(words, pa.int64())
