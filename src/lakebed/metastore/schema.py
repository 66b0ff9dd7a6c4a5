"""The metastore's tables: one schema for SQLite and PostgreSQL.

Every row of a table hangs on its small number (``tables.num``), never reused, so that indexes stay small and
whatever is cached under a number stays true. File and partition numbers are counted per table in the table's
own row, under the commit's lock: a commit needs no round trip to learn them.

A file row carries the version that added it and the one that removed it. Live and removed rows have indexes
of their own: a snapshot is the live rows, plus those that were removed only later, however long the history.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData()

# SQLite numbers rows by itself only for a column of type INTEGER.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _of_table() -> Column[int]:
    """The table's number. No foreign key: the commit holds the table's row, and a check per file row is dear."""
    return Column("table_num", _NUMBER, nullable=False)


meta = Table(
    "lakebed_meta",
    metadata,
    Column("schema_version", Integer, primary_key=True, autoincrement=False),
)

migrations = Table(
    "lakebed_migrations",
    metadata,
    Column("name", String, primary_key=True),
    Column("applied_at", BigInteger, nullable=False),
)

namespaces = Table(
    "lakebed_namespaces",
    metadata,
    Column("name", String, primary_key=True),
    Column("properties", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
)

tables = Table(
    "lakebed_tables",
    metadata,
    Column("num", _NUMBER, Identity(always=True), primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("namespace", String, ForeignKey("lakebed_namespaces.name"), nullable=False),
    Column("name", String, nullable=False),
    Column("location", String, nullable=False, unique=True),
    Column("created", BigInteger, nullable=False),
    # The head. A commit locks this row, so everything that it needs to know of the head is here.
    Column("version", BigInteger, nullable=False),
    Column("timestamp", BigInteger, nullable=False),
    Column("schema_version", BigInteger, nullable=False),
    Column("next_row_id", BigInteger, nullable=False),
    Column("next_file_id", BigInteger, nullable=False),
    Column("next_partition_id", BigInteger, nullable=False),
    # Counts how often partitions were forgotten: a number that a process remembers from before may be void.
    Column("partition_epoch", BigInteger, nullable=False, server_default=text("0")),
    # Whether vacuum has condemned files: a commit need not look for them otherwise.
    Column("condemned", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("namespace", "name"),
    sqlite_autoincrement=True,
)

schemas = Table(
    "lakebed_schemas",
    metadata,
    _of_table(),
    Column("version", BigInteger, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("metadata_changed", Boolean, nullable=False),
    Column("protocol_changed", Boolean, nullable=False),
    PrimaryKeyConstraint("table_num", "version"),
)

versions = Table(
    "lakebed_versions",
    metadata,
    _of_table(),
    Column("version", BigInteger, nullable=False),
    Column("commit_id", String, nullable=False),
    Column("timestamp", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("data_change", Boolean, nullable=False),
    Column("next_row_id", BigInteger, nullable=False),
    Column("info", Text, nullable=False),
    Column("buckets", Text),
    # Actions that have no table of their own here (cdc files, later protocols), as lines of the log.
    Column("other_actions", Text),
    # The text of the log file while it is not published yet. Last, so that reading the others skips it.
    Column("body", Text),
    PrimaryKeyConstraint("table_num", "version"),
    UniqueConstraint("table_num", "commit_id"),
    Index("lakebed_versions_by_time", "table_num", "timestamp"),
)

partitions = Table(
    "lakebed_partitions",
    metadata,
    _of_table(),
    Column("id", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    PrimaryKeyConstraint("table_num", "id"),
    UniqueConstraint("table_num", "key"),
)

files = Table(
    "lakebed_files",
    metadata,
    _of_table(),
    Column("id", BigInteger, nullable=False),
    Column("path", Text, nullable=False),
    Column("partition_id", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modification_time", BigInteger, nullable=False),
    Column("num_records", BigInteger),
    Column("base_row_id", BigInteger),
    Column("default_row_commit_version", BigInteger),
    # Both are in the tags too, where the log has them; here they can be asked for.
    Column("bucket", BigInteger),
    Column("unsettled", Boolean, nullable=False, server_default=false()),
    Column("data_change", Boolean, nullable=False),
    Column("added_version", BigInteger, nullable=False),
    Column("removed_version", BigInteger),
    Column("removed_at", BigInteger),
    Column("removed_data_change", Boolean),
    Column("tags", Text),
    Column("extra", Text),
    Column("stats", Text),
    PrimaryKeyConstraint("table_num", "id"),
)
_LIVE: dict[str, Any] = {key: text("removed_version IS NULL") for key in ("sqlite_where", "postgresql_where")}
_GONE: dict[str, Any] = {key: text("removed_version IS NOT NULL") for key in ("sqlite_where", "postgresql_where")}
Index("lakebed_files_live", files.c.table_num, files.c.path, unique=True, **_LIVE)
Index("lakebed_files_live_added", files.c.table_num, files.c.added_version, **_LIVE)
Index("lakebed_files_live_in_partition", files.c.table_num, files.c.partition_id, files.c.added_version, **_LIVE)
# Tables without a primary key have no entry in it. The bucket comes first, since buckets may span partitions.
_LIVE_OF_KEY: dict[str, Any] = {key: text("removed_version IS NULL AND bucket IS NOT NULL") for key in _LIVE}
LIVE_IN_BUCKET = Index(
    "lakebed_files_live_in_bucket", files.c.table_num, files.c.bucket, files.c.partition_id, **_LIVE_OF_KEY
)
_UNSETTLED: dict[str, Any] = {"sqlite_where": text("unsettled = 1"), "postgresql_where": text("unsettled")}
UNSETTLED = Index("lakebed_files_unsettled", files.c.table_num, files.c.removed_version, **_UNSETTLED)
Index("lakebed_files_gone_added", files.c.table_num, files.c.added_version, **_GONE)
Index("lakebed_files_gone_removed", files.c.table_num, files.c.removed_version, **_GONE)

# A vector's own stats, tags and so on are null where they are those of its file.
vectors = Table(
    "lakebed_deletion_vectors",
    metadata,
    _of_table(),
    Column("file_id", BigInteger, nullable=False),
    Column("added_version", BigInteger, nullable=False),
    Column("removed_version", BigInteger),
    Column("storage_type", String, nullable=False),
    Column("path_or_inline_dv", Text, nullable=False),
    Column("start", BigInteger),
    Column("size_in_bytes", BigInteger, nullable=False),
    Column("cardinality", BigInteger, nullable=False),
    Column("data_change", Boolean, nullable=False),
    Column("base_row_id", BigInteger),
    Column("default_row_commit_version", BigInteger),
    Column("tags", Text),
    Column("extra", Text),
    Column("stats", Text),
    PrimaryKeyConstraint("table_num", "file_id", "added_version"),
)
Index("lakebed_vectors_live", vectors.c.table_num, vectors.c.file_id, unique=True, **_LIVE)
Index("lakebed_vectors_added", vectors.c.table_num, vectors.c.added_version)
Index("lakebed_vectors_gone_removed", vectors.c.table_num, vectors.c.removed_version, **_GONE)

# Both keep their history, so that a checkpoint of an older version is exact.
transactions = Table(
    "lakebed_transactions",
    metadata,
    _of_table(),
    Column("app_id", String, nullable=False),
    Column("committed_version", BigInteger, nullable=False),
    Column("app_version", BigInteger, nullable=False),
    Column("last_updated", BigInteger),
    PrimaryKeyConstraint("table_num", "app_id", "committed_version"),
)

domains = Table(
    "lakebed_domains",
    metadata,
    _of_table(),
    Column("domain", String, nullable=False),
    Column("committed_version", BigInteger, nullable=False),
    Column("configuration", Text, nullable=False),
    Column("removed", Boolean, nullable=False),
    PrimaryKeyConstraint("table_num", "domain", "committed_version"),
)

tags = Table(
    "lakebed_tags",
    metadata,
    _of_table(),
    Column("name", String, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("retain_until", BigInteger),
    PrimaryKeyConstraint("table_num", "name"),
)

# Files that vacuum is about to delete, or has deleted: no commit may bring them back.
condemned = Table(
    "lakebed_condemned",
    metadata,
    _of_table(),
    # A data file's path as the file system knows it; or the key of a file of vectors.
    Column("path", Text, nullable=False),
    Column("is_vector", Boolean, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("table_num", "path", "is_vector"),
)

# Versions that running readers need.
leases = Table(
    "lakebed_leases",
    metadata,
    _of_table(),
    Column("holder", String, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    PrimaryKeyConstraint("holder", "table_num", "version"),
)

# How far named readers of changes have come: what they have not read yet must not expire.
consumers = Table(
    "lakebed_consumers",
    metadata,
    _of_table(),
    Column("name", String, nullable=False),
    Column("version", BigInteger, nullable=False),
    # Nothing has been read yet: the reader begins with all rows of that version.
    Column("whole", Boolean, nullable=False, server_default=false()),
    Column("updated", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    PrimaryKeyConstraint("table_num", "name"),
)

OF_ONE_TABLE = (
    consumers,
    leases,
    condemned,
    tags,
    domains,
    transactions,
    vectors,
    files,
    partitions,
    versions,
    schemas,
)
"""What goes when a table is dropped, before the table's own row."""
