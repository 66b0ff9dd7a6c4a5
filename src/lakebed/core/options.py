"""The options of a connection: few, typed, and listed in one table.

An option has one name and several spellings: ``s3.endpoint``, ``s3_endpoint``, ``s3-endpoint`` and
Hadoop's ``fs.s3a.endpoint`` are the same option.

>>> options = Options.parse({"batch-size": "4096", "writer_memory_limit": "64MiB"})
>>> options.batch_size, options.writer_memory_limit
(4096, 67108864)
>>> Options.parse({"prefetches": 1})
Traceback (most recent call last):
lakebed.core.errors.OptionError: unknown option 'prefetches'; fix: use 'prefetch'
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from lakebed.core.errors import OptionError
from lakebed.core.secret import Secret

MIB = 1024 * 1024
SHUFFLES = ("auto", "always", "never")
AUTO = "auto"
COMPRESSIONS = (AUTO, "zstd", "snappy", "gzip", "lz4", "none")


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the options table. ``also`` are other spellings, ``deprecated`` those that warn."""

    name: str
    type: str
    default: Any
    description: str
    minimum: int = 0
    choices: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    deprecated: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """The attribute of ``Options`` that holds the value."""
        return normalise(self.name)


OPTIONS: tuple[Option, ...] = (
    Option("batch_size", "integer", 8192, "rows of one Arrow batch that a read yields", minimum=1),
    Option("max_row_group_rows", "integer", 250_000, "rows of one Parquet row group", minimum=1),
    Option("prefetch", "integer", 2, "files that a scan reads ahead; 0 reads one after the other"),
    Option("writer_memory_limit", "size", 512 * MIB, "memory of a writer, of settling or of a compaction", minimum=1),
    Option("key_cache_size", "size", 256 * MIB, "key columns that the process keeps for settling; 0 keeps none"),
    Option("file_target_size", "size", 128 * MIB, "size of a data file that compaction aims at", minimum=1),
    Option(
        "distribute_from", "size", 256 * MIB, "size of files from which work on them is a Spark job, if there is Spark",
    ),
    Option("commit_retries", "integer", 10, "times a commit that lost a race is tried again"),
    Option(
        "compression", "choice", AUTO,
        "codec of data files; `auto`: lz4 for what upserts write, until compaction rewrites it, and zstd for all else",
        choices=COMPRESSIONS,
    ),
    Option("sync", "boolean", True, "flush data files to the disk before their commit"),
    Option(
        "shuffle", "choice", "auto",
        "whether Spark brings the rows of a bucket, or of a partition, together to write them", choices=SHUFFLES,
    ),
    Option("progress", "boolean", True, "show progress of long work, on a terminal"),
    Option(
        "broadcast_limit", "size", 128 * MIB,
        "bytes of bitmaps of dead rows that a DataFrame broadcasts; files beyond are read by the Arrow scan",
    ),
    Option(
        "read_here", "size", 12 * MIB,
        "size of files up to which the driver reads what a predicate leaves of a table, or changes, for a DataFrame",
    ),
    Option(
        "write_here", "size", 16 * MIB,
        "bytes of rows of a DataFrame up to which the driver writes them, into fewer files than tasks would; 0: tasks "
        "write all rows, those of plain Parquet files too",
    ),
    Option(
        "default_fs", "text", None, "file system of paths that name none, like hdfs://namenode:8020",
        also=("fs.defaultFS",), deprecated=("fs.default.name",),
    ),
    Option("s3.endpoint", "text", None, "URL of an S3 server other than AWS", also=("fs.s3a.endpoint",)),
    Option(
        "s3.region", "text", None, "AWS region; us-east-1 when only an endpoint is given",
        also=("fs.s3a.endpoint.region",),
    ),
    Option(
        "s3.access_key", "secret", None, "access key; without one the AWS environment decides",
        also=("fs.s3a.access.key",),
    ),
    Option("s3.secret_key", "secret", None, "secret key", also=("fs.s3a.secret.key",)),
    Option("s3.session_token", "secret", None, "token of temporary keys", also=("fs.s3a.session.token",)),
    Option(
        "s3.path_style", "boolean", None, "bucket in the path, not in the host name; true with an endpoint",
        also=("fs.s3a.path.style.access",),
    ),
    Option("hdfs.user", "text", None, "user of HDFS; the process's own by default"),
    Option("hdfs.kerberos_ticket", "text", None, "path of the Kerberos ticket cache for HDFS"),
)  # fmt: skip


def normalise(name: str) -> str:
    """The one spelling of an option's name.

    >>> normalise("fs.s3a.path.style.access"), normalise("Batch-Size")
    ('fs_s3a_path_style_access', 'batch_size')
    """
    return re.sub(r"[.\-\s]+", "_", name.strip()).lower()


_BY_SPELLING: Mapping[str, Option] = {
    normalise(spelling): option for option in OPTIONS for spelling in (option.name, *option.also, *option.deprecated)
}
_DEPRECATED = {normalise(spelling): o for o in OPTIONS for spelling in o.deprecated}


@dataclass(frozen=True, slots=True)
class Options:
    """The values of all options; the table ``OPTIONS`` says what each one means."""

    batch_size: int = 8192
    max_row_group_rows: int = 250_000
    prefetch: int = 2
    writer_memory_limit: int = 512 * MIB
    key_cache_size: int = 256 * MIB
    file_target_size: int = 128 * MIB
    distribute_from: int = 256 * MIB
    commit_retries: int = 10
    compression: str = AUTO
    sync: bool = True
    shuffle: str = "auto"
    progress: bool = True
    broadcast_limit: int = 128 * MIB
    read_here: int = 12 * MIB
    write_here: int = 16 * MIB
    default_fs: str | None = None
    s3_endpoint: str | None = None
    s3_region: str | None = None
    s3_access_key: Secret | None = None
    s3_secret_key: Secret | None = None
    s3_session_token: Secret | None = None
    s3_path_style: bool | None = None
    hdfs_user: str | None = None
    hdfs_kerberos_ticket: str | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Options:
        """Options from names in any spelling and values as text or typed.

        Raises ``OptionError`` for an unknown name, a wrong value, or one option in two spellings
        with different values.
        """
        return cls().updated(values)

    def updated(self, values: Mapping[str, Any]) -> Options:
        """These options with some replaced; accepts and raises what ``parse`` does.

        >>> Options().updated({"prefetch": 0}).prefetch
        0
        """
        changed: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for name, value in values.items():
            option = find(name)
            parsed = None if value is None else parse_value(option, value, name)
            if option.field in changed and changed[option.field] != parsed:
                raise OptionError(
                    f"options '{spelled[option.field]}' and '{name}' are the same option with two values",
                    fix=f"keep one, best '{option.name}'",
                )
            changed[option.field], spelled[option.field] = parsed, name
        kept = {key: value for key, value in changed.items() if value is not None}
        return replace(self, **kept)

    @property
    def codec(self) -> str:
        """The codec of files that are to stay as they are.

        >>> Options().codec, Options(compression="snappy").codec
        ('zstd', 'snappy')
        """
        return "zstd" if self.compression == AUTO else self.compression

    def for_upserts(self) -> Options:
        """The same for files that compaction will rewrite. With lz4 they are written in 5/6 of the time and read
        in half of it, and are half as large again: as with snappy, which other tables have by default.

        >>> Options().for_upserts().codec, Options(compression="snappy").for_upserts().codec
        ('lz4', 'snappy')
        """
        return replace(self, compression="lz4") if self.compression == AUTO else self

    def __repr__(self) -> str:
        default = Options()
        shown = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(default, f.name)
        ]
        return f"Options({', '.join(shown)})"


def find(name: str, *, extra: Iterable[str] = ()) -> Option:
    """The option of that name in any spelling; warns of a deprecated spelling.

    ``extra`` are further names that the caller knows; they are offered when ``name`` is unknown.
    """
    key = normalise(name)
    option = _BY_SPELLING.get(key)
    if option is None:
        raise OptionError(f"unknown option '{name}'", fix=_nearest(key, extra))
    if key in _DEPRECATED:
        warnings.warn(
            f"option '{name}' is deprecated; use '{(*option.also, option.name)[0]}'",
            DeprecationWarning,
            stacklevel=4,
        )
    return option


def _nearest(key: str, extra: Iterable[str]) -> str:
    names = {normalise(o.name): o.name for o in OPTIONS} | {normalise(n): n for n in extra}
    spellings = {spelling: o.name for spelling, o in _BY_SPELLING.items()} | names
    found = difflib.get_close_matches(key, spellings, n=3, cutoff=0.6)
    nearest = list(dict.fromkeys(spellings[match] for match in found))
    if nearest:
        return "use " + " or ".join(f"'{n}'" for n in nearest)
    return "the options are " + ", ".join(sorted(names.values()))


def parse_value(option: Option, value: Any, name: str | None = None) -> Any:
    """The typed value of an option. Raises ``OptionError`` with what was expected and found."""
    try:
        parsed = _PARSERS[option.type](value)
    except (ValueError, TypeError) as cause:
        raise _wrong(option, value, name, _EXPECTED[option.type]) from (None if option.type == "secret" else cause)
    if option.type in ("integer", "size") and parsed < option.minimum:
        raise _wrong(option, value, name, f"{_EXPECTED[option.type]} of at least {option.minimum}")
    if option.choices:
        parsed = parsed.lower()
        if parsed not in option.choices:
            raise _wrong(option, value, name, "one of " + ", ".join(option.choices))
    return parsed


def _wrong(option: Option, value: Any, name: str | None, expected: str) -> OptionError:
    found = type(value).__name__ if option.type == "secret" else repr(value)
    return OptionError(f"option '{name or option.name}' has a wrong value", expected=expected, found=found)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)


def parse_size(value: Any) -> int:
    """Bytes from a number or from text with a unit; one letter alone counts in 1024s, as Java does.

    >>> parse_size("128MiB"), parse_size("1 GB"), parse_size("64k"), parse_size(10)
    (134217728, 1000000000, 65536, 10)
    """
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            raise ValueError(value)
        number, unit, binary, byte = match.groups()
        base = 1000 if byte and not binary else 1024
        return int(float(number) * base ** " kmgt".index(unit.lower() or " "))
    return _integer(value)


def _integer(value: Any) -> int:
    if isinstance(value, str):
        return int(value.strip().replace("_", ""))
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise ValueError(value)


def _text(value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ValueError(value)


def _secret(value: Any) -> Secret:
    return value if isinstance(value, Secret) else Secret(_text(value))


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "integer": _integer,
    "size": parse_size,
    "boolean": _boolean,
    "text": _text,
    "choice": _text,
    "secret": _secret,
}
_EXPECTED = {
    "integer": "a whole number",
    "size": "a size in bytes like 134217728 or '128MiB'",
    "boolean": "true or false",
    "text": "text",
    "choice": "text",
    "secret": "text",
}


def describe() -> list[tuple[str, str, str, str]]:
    """The options table for the documentation: name, type, default, description.

    >>> describe()[0]
    ('batch_size', 'integer', '8192', 'rows of one Arrow batch that a read yields')
    """
    return [(o.name, _type_text(o), _default_text(o), _description_text(o)) for o in OPTIONS]


def _type_text(option: Option) -> str:
    return " | ".join(option.choices) if option.choices else option.type


def _default_text(option: Option) -> str:
    if option.default is None:
        return ""
    if option.type == "size":
        return f"{option.default // MIB}MiB"
    return str(option.default).lower()


def _description_text(option: Option) -> str:
    also = (*option.also, *(f"{name} (deprecated)" for name in option.deprecated))
    return option.description + (f"; also {', '.join(also)}" if also else "")
