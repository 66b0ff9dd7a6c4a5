"""Texts of messages as objects."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from lakebed.core.errors import InputError


def texts_in(column: pa.Array) -> tuple[list[str | None], dict[int, str]]:
    """The texts of a column of text or bytes, and what is wrong with some of them, by number.

    >>> texts_in(pa.array([b"{}", b"\\xff", None]))
    (['{}', None, None], {1: 'it is not UTF-8'})
    """
    if pat.is_null(column.type):
        return [None] * len(column), {}
    if pat.is_string(column.type) or pat.is_large_string(column.type) or pat.is_string_view(column.type):
        return column.to_pylist(), {}
    if not (pat.is_binary(column.type) or pat.is_large_binary(column.type) or pat.is_binary_view(column.type)):
        raise InputError("change messages are JSON", expected="a column of text or bytes", found=str(column.type))
    try:
        return column.cast(pa.string()).to_pylist(), {}
    except pa.ArrowInvalid:
        found = column.to_pylist()
        wrong = {at: "it is not UTF-8" for at, value in enumerate(found) if value is not None and not _is_text(value)}
        return [None if at in wrong or v is None else v.decode() for at, v in enumerate(found)], wrong


def _is_text(value: bytes) -> bool:
    return value.decode("utf-8", "ignore").encode() == value


def read_messages(texts: Sequence[str | None]) -> tuple[list[Any], dict[int, str]]:
    """The JSON value of each text (None for a null), and what is wrong with those that are none, by number.

    Numbers with a point are exact decimals.

    >>> read_messages(['{"a": 1.10}', None, "{"])
    ([{'a': Decimal('1.10')}, None, None], {2: 'it is not JSON: Expecting property name ...'})
    """
    # One call for all. The mark between two texts cannot be guessed, so a text that is not JSON by itself cannot
    # become a part of its neighbours unseen.
    mark = secrets.token_hex(16)
    joined = f',"{mark}",'.join("null" if text is None else text for text in texts)
    try:
        found = _loads(f"[{joined}]")
    except (ValueError, RecursionError):
        return _one_by_one(texts)
    values = found[::2]
    if len(found) != 2 * len(texts) - 1 or any(between != mark for between in found[1::2]):
        return _one_by_one(texts) if texts else ([], {})
    return values, {}


def _one_by_one(texts: Sequence[str | None]) -> tuple[list[Any], dict[int, str]]:
    values: list[Any] = []
    wrong: dict[int, str] = {}
    for at, text in enumerate(texts):
        try:
            values.append(None if text is None else _loads(text))
        except (ValueError, RecursionError) as error:
            values.append(None)
            wrong[at] = f"it is not JSON: {error}"
    return values, wrong


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_constant=str)
