"""Thrift's compact protocol: what is decoded is encoded again to the same bytes."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.storage import thrift
from lakebed.storage.thrift import Fields, Items, Pairs

NUMBERS = st.integers(-(2**63), 2**63 - 1)


def kinds(depth: int) -> st.SearchStrategy[tuple[int, Any]]:
    """A kind, and a value of it."""
    plain = [
        st.tuples(st.just(thrift.BYTE), st.binary(min_size=1, max_size=1)),
        st.tuples(st.sampled_from([thrift.I16, thrift.I32, thrift.I64]), NUMBERS),
        st.tuples(st.just(thrift.DOUBLE), st.binary(min_size=8, max_size=8)),
        st.tuples(st.just(thrift.UUID), st.binary(min_size=16, max_size=16)),
        st.tuples(st.just(thrift.BINARY), st.binary(max_size=300)),
        st.tuples(st.sampled_from([thrift.TRUE, thrift.FALSE]), st.booleans()).map(
            lambda pair: (thrift.TRUE if pair[1] else thrift.FALSE, pair[1])
        ),
    ]
    if not depth:
        return st.one_of(plain)
    deeper = kinds(depth - 1)
    lists = deeper.flatmap(
        lambda one: st.integers(0, 40).map(lambda length: (thrift.LIST, Items(one[0], [one[1]] * length)))
    )
    maps = st.tuples(deeper, deeper, st.integers(0, 20)).map(
        lambda drawn: (
            thrift.MAP,
            Pairs(drawn[0][0], drawn[1][0], [(drawn[0][1], drawn[1][1])] * drawn[2]) if drawn[2] else Pairs(0, 0, []),
        )
    )
    return st.one_of(*plain, lists, maps, structs(depth - 1).map(lambda fields: (thrift.STRUCT, fields)))


def structs(depth: int) -> st.SearchStrategy[Fields]:
    """Fields with ids near to each other and far apart, in any order."""
    return st.dictionaries(st.integers(-40, 400).filter(bool), kinds(depth), max_size=6).map(Fields)


@given(fields=structs(3))
def test_what_is_encoded_is_decoded(fields: Fields) -> None:
    assert thrift.decode(thrift.encode(fields)) == fields


def test_footers_of_arrow_stay_the_same() -> None:
    content = io.BytesIO()
    rows = pa.table({"id": range(100), "text": ["x"] * 100, "list": [[1, None]] * 100, "truth": [True, None] * 50})
    pq.write_table(rows, content, row_group_size=30, write_page_index=True, write_page_checksum=True)
    data = content.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert thrift.encode(thrift.decode(footer)) == footer


@pytest.mark.parametrize("data", [b"", b"\x15", b"\x18\x05ab", b"\x19\xf5"])
def test_what_ends_early_is_no_struct(data: bytes) -> None:
    with pytest.raises(ValueError, match="end in the middle"):
        thrift.decode(data)


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="no kind 14"):
        thrift.decode(b"\x1e\x00")
