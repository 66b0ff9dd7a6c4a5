"""Names of namespaces and tables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakebed.core.errors import InputError

DEFAULT_NAMESPACE = "default"
_PLAIN = re.compile(r"[^\x00-\x20\x7f./\\`\"'<>|:*?%#]{1,200}")


@dataclass(frozen=True)
class TableName:
    """A table's place in the warehouse."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @classmethod
    def parse(cls, text: str) -> TableName:
        """``shop.orders``, or ``orders`` for a table of the default namespace. Raises InputError.

        >>> TableName.parse("orders")
        TableName(namespace='default', name='orders')
        """
        if not isinstance(text, str):
            raise InputError("a table's name is text", expected="'namespace.table'", found=repr(text))
        parts = text.split(".")
        if len(parts) > 2:
            raise InputError(f"{text!r} is no table name", expected="'namespace.table' or 'table'")
        namespace = parts[0] if len(parts) == 2 else DEFAULT_NAMESPACE
        return cls(check_name(namespace, "namespace"), check_name(parts[-1], "table"))


def check_name(text: object, what: str) -> str:
    """The name itself if it can be one. Raises InputError."""
    if not isinstance(text, str) or not _PLAIN.fullmatch(text) or not text.isprintable():
        raise InputError(
            f"{text!r} is no name for a {what}",
            expected="1 to 200 letters, digits, '_' or '-'; no blanks, dots, quotes or slashes",
        )
    return text
