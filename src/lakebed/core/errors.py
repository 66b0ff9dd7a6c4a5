"""Every error that Lakebed raises.

::

    LakebedError
    ├── InputError                  what the caller passed cannot be used (also a ValueError)
    │   ├── OptionError             unknown or wrong option, property or connection setting
    │   ├── SchemaError             a schema or a schema change that is not possible
    │   ├── DataError               rows that do not fit the table; lists every problem
    │   ├── PredicateError          a predicate that cannot be parsed or does not fit the schema
    │   └── SqlError                a statement that cannot be understood or run; points at the place in it
    ├── NotFoundError               namespace, table, version, tag or column that is not there
    ├── AlreadyExistsError          namespace, table, tag or location that is taken
    ├── CommitError
    │   ├── ConflictError           another commit got in the way; names both and what to do
    │   └── CommitUnknownError      the outcome cannot be told; the commit's id is in the message
    ├── JobError                    a job of the cluster that failed; nothing was changed
    ├── MetastoreError              the metadata database cannot be reached or used
    │   └── MetastoreVersionError   its schema version is not one this Lakebed knows
    └── StorageError                files that cannot be read or written
        ├── FileMissingError        a file that metadata names is not there
        ├── CorruptFileError        a file that is there cannot be understood
        ├── AccessError             no permission, or wrong credentials
        ├── NoSpaceError            the disk or the quota is full
        └── UnsupportedFeatureError a Delta protocol version or feature that Lakebed does not know
"""

from __future__ import annotations


class LakebedError(Exception):
    """The root of all errors of Lakebed.

    ``what`` names the object and what is wrong; ``expected``, ``found`` and ``fix`` are added to the
    message in that order when they are given.

    >>> print(LakebedError("table shop.orders: no such column 'amout'", found="amout", fix="use 'amount'"))
    table shop.orders: no such column 'amout'; found amout; fix: use 'amount'
    """

    def __init__(
        self, what: str, *, expected: str | None = None, found: str | None = None, fix: str | None = None
    ) -> None:
        self.what = what
        self.expected = expected
        self.found = found
        self.fix = fix
        parts = [what]
        if expected is not None:
            parts.append(f"expected {expected}")
        if found is not None:
            parts.append(f"found {found}")
        if fix is not None:
            parts.append(f"fix: {fix}")
        # After a list of problems the rest would look like a part of the last one.
        super().__init__(("\n" if "\n" in what else "; ").join(parts))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.expected, self.found, self.fix)


def _rebuild(
    kind: type[LakebedError], what: str, expected: str | None, found: str | None, fix: str | None
) -> LakebedError:
    error = kind.__new__(kind)
    LakebedError.__init__(error, what, expected=expected, found=found, fix=fix)
    return error


class InputError(LakebedError, ValueError):
    """What the caller passed cannot be used; nothing was changed."""


class OptionError(InputError):
    """An unknown or wrong option, property or connection setting."""


class SchemaError(InputError):
    """A schema, or a change of one, that is not possible."""


class DataError(InputError):
    """Rows that do not fit the table. ``problems`` lists every one of them."""

    def __init__(self, what: str, problems: tuple[str, ...] = (), *, fix: str | None = None) -> None:
        self.problems = tuple(problems)
        self.title = what
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(what + (":" + lines if lines else ""), fix=fix)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_data, (self.title, self.problems, self.fix)


def _rebuild_data(what: str, problems: tuple[str, ...], fix: str | None) -> DataError:
    return DataError(what, problems, fix=fix)


class PredicateError(InputError):
    """A predicate that cannot be parsed, or that does not fit the schema."""


class SqlError(InputError):
    """A statement that cannot be understood or run; the message points at the place in it."""


class NotFoundError(LakebedError, LookupError):
    """A namespace, table, version, tag or column that is not there."""


class AlreadyExistsError(LakebedError):
    """A namespace, table, tag or location that is taken."""


class CommitError(LakebedError):
    """A commit that did not land, or whose outcome is not known."""


class ConflictError(CommitError):
    """Another commit got in the way. Nothing was changed."""


class CommitUnknownError(CommitError):
    """The outcome of a commit cannot be told; no file was deleted."""


class JobError(LakebedError):
    """A job of the cluster that failed. Nothing was changed."""


class MetastoreError(LakebedError):
    """The metadata database cannot be reached or used."""


class MetastoreVersionError(MetastoreError):
    """The metastore has a schema version that this Lakebed does not know."""


class StorageError(LakebedError):
    """Files that cannot be read or written."""


class FileMissingError(StorageError):
    """A file that metadata names is not there."""


class CorruptFileError(StorageError):
    """A file that is there cannot be understood."""


class AccessError(StorageError):
    """No permission, or wrong credentials."""


class NoSpaceError(StorageError):
    """The disk or the quota is full."""


class UnsupportedFeatureError(StorageError):
    """A Delta protocol version or feature that Lakebed does not know."""
