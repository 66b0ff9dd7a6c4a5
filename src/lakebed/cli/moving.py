"""``import``, ``export`` and ``recover``: tables and rows in and out."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from lakebed.cli import amounts, screen
from lakebed.cli.arguments import Table, Tag, Timestamp, Version, Where, only_one
from lakebed.cli.screen import FAINT, NAME, Cell
from lakebed.cli.session import Session
from lakebed.core.errors import AlreadyExistsError, InputError, NotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakebed.core.location import Location
    from lakebed.table import Table as OpenTable
    from lakebed.view import Readable
    from lakebed.warehouse import Warehouse

Names = Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")]


def import_(  # noqa: PLR0913, PLR0917 - the options of a command
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="A file, a directory, a pattern like in/*.csv, or a Delta table.")],
    table: Table,
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="parquet, csv, json or delta; the names tell by default."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Take in a Delta table where it lies, instead of copying its rows.")
    ] = False,
    key: Annotated[str | None, typer.Option("--key", metavar="A,B", help="Primary key of a new table.")] = None,
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", metavar="A,B", help="Partition columns of a new table.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="DDL", help="Columns of a new table; the first file tells by default."),
    ] = None,
    delimiter: Annotated[str, typer.Option("--delimiter", help="Between the values of CSV.")] = ",",
    header: Annotated[bool, typer.Option("--header/--no-header", help="Whether CSV begins with names.")] = True,
    merge_schema: Annotated[bool, typer.Option("--merge-schema", help="Add columns that the table lacks.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Load files again that were loaded before.")] = False,
) -> None:
    """Load Parquet, CSV or JSON files, each of them once, or a Delta table. The table is made if it is not there."""
    session = Session.of(context)
    new = {"primary_key": _names(key), "partition_by": _names(partition_by)}
    with session.lake() as lake:
        is_delta = format == "delta" or (format is None and _is_delta(lake, source))
        if in_place:
            if not is_delta:
                raise InputError(
                    f"{source} is no Delta table", fix="leave out --in-place: other files can only be copied"
                )
            done = _registered(lake, table, source)
        elif is_delta:
            done = _copied(lake, table, source, new)
        else:
            how = {"format": format, "header": header, "delimiter": delimiter}
            made = _made(lake, table, source, new, schema, how)
            told = merge_schema or (made and schema is None)  # columns that were said are all there are
            done = _loaded(lake, table, source, how, made=made, merge_schema=told, force=force)
    if session.json:
        screen.dump(done)
    elif done["version"] is None:
        screen.say(Cell(done["table"], NAME), ": nothing new; all files were loaded before (--force loads them again)")
    else:
        what = "taken in where it lies" if in_place else f"{done['rows']:,} row(s) from {done['files']:,} file(s)"
        screen.say(Cell(done["table"], NAME), f": {what}, version {done['version']}")


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _is_delta(lake: Warehouse, source: str) -> bool:
    from lakebed.core.location import Location
    from lakebed.delta.log import list_log
    from lakebed.storage.store import open_store

    if any(letter in source for letter in "*?[{"):
        return False
    place = Location.parse(source, default_fs=lake._options.default_fs)
    found = list_log(open_store(place, lake._options))
    return bool(found.commits or found.checkpoints)


def _registered(lake: Warehouse, table: str, source: str) -> dict[str, Any]:
    found = lake.register(table, source)
    return {"table": found.name, "version": found.version, "files": found.files().num_rows, "rows": found.count()}


def _copied(lake: Warehouse, table: str, source: str, new: dict[str, list[str]]) -> dict[str, Any]:
    """The rows of a Delta table as rows of another; once, whatever happens in between."""
    import pyarrow as pa

    from lakebed.connection import read_delta

    delta = read_delta(source)
    wanted = {"primary_key": new["primary_key"], "partition_by": new["partition_by"] or list(delta.partition_by)}
    target, made = _found_or_made(lake, table, delta.schema, wanted)
    with _undone(lake, table, made=made):
        rows = pa.RecordBatchReader.from_batches(delta.schema, delta.to_batches())
        commit = target.upsert(rows) if target.primary_key else target.append(rows)
    count = commit.metrics.get("numOutputRows", 0)
    return {"table": target.name, "version": commit.version, "files": delta.files().num_rows, "rows": count}


def _made(
    lake: Warehouse, table: str, source: str, new: dict[str, list[str]], ddl: str | None, how: dict[str, Any]
) -> bool:
    """Make the table with the columns of the first file, unless it is there; whether it was made."""
    from lakebed.engine.file_formats import FileFormat
    from lakebed.storage.file_glob import find_files

    files = find_files(source, lake._options)
    if not files:
        raise NotFoundError(f"there is no file to load at {source}")
    columns: Any = ddl
    if columns is None:
        reading = FileFormat(how["format"], how["header"], how["delimiter"])
        columns = _storable(reading.schema(files[0], lake._options))
        if not len(columns):
            raise InputError(f"file {files[0].uri} tells no columns", fix="say them: --schema 'id BIGINT, …'")
    return _found_or_made(lake, table, columns, new)[1]


def _storable(schema: pa.Schema) -> pa.Schema:
    """A column in which the first rows have nothing becomes text."""
    import pyarrow as pa

    return pa.schema([f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in schema])


def _found_or_made(lake: Warehouse, table: str, schema: Any, new: dict[str, list[str]]) -> tuple[OpenTable, bool]:
    try:
        found = lake.table(table)
    except NotFoundError:
        space, dot, _ = table.rpartition(".")
        if dot:
            lake.create_namespace(space, if_not_exists=True)
        return lake.create_table(table, schema, primary_key=new["primary_key"], partition_by=new["partition_by"]), True
    given = [f"--{name.replace('_', '-')}" for name, columns in new.items() if columns]
    if given:
        raise InputError(f"table {found.name} is there already", found=" and ".join(given), fix="leave them out")
    return found, False


@contextlib.contextmanager
def _undone(lake: Warehouse, table: str, *, made: bool) -> Iterator[None]:
    """If the block fails, a table that was only made for it goes again."""
    try:
        yield
    except BaseException:
        if made and lake.table(table).version == 0:
            lake.drop_table(table, purge=True)
        raise


def _loaded(
    lake: Warehouse, table: str, source: str, how: dict[str, Any], *, made: bool, merge_schema: bool, force: bool
) -> dict[str, Any]:
    with _undone(lake, table, made=made):
        done = lake.copy_into(table, source, merge_schema=merge_schema, force=force, **how)
    return {
        "table": done.table,
        "version": done.version,
        "files": len(done.files),
        "skipped": len(done.skipped),
        "rows": done.rows,
    }


def export(
    context: typer.Context,
    table: Table,
    path: Annotated[str, typer.Argument(help="A file or a URI; - is standard output.")],
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="parquet, csv, json or arrow; the ending tells by default."),
    ] = None,
    columns: Names = None,
    where: Where = None,
    version: Version = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write the rows of a table, or of an older version, into one file."""
    from lakebed.cli.writers import ENDINGS, write

    only_one(version=version, timestamp=timestamp, tag=tag)
    kind = format or ENDINGS.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise InputError(f"the name {path!r} does not tell a format", fix="pass --format parquet, csv, json or arrow")
    session = Session.of(context)
    with session.lake() as lake:
        view: Readable = lake.table(table)
        if version is not None or timestamp or tag:
            view = lake.table(table).at(version=version, timestamp=timestamp, tag=tag)
        chosen = _names(columns) or None
        schema = view.schema if chosen is None else _selected(view, chosen)
        with _output(lake, path, force=force) as sink:
            rows = write(view.to_batches(chosen, where), schema, sink, kind)
    done = {"table": view.name, "path": path, "format": kind, "rows": rows}
    if path == "-":
        return
    if session.json:
        screen.dump(done)
    else:
        screen.say(Cell(view.name, NAME), f": {rows:,} row(s) written to {path}", Cell(_size(path), FAINT))


def _selected(view: Readable, columns: Sequence[str]) -> pa.Schema:
    return view.to_arrow(columns, where="false").schema


def _size(path: str) -> str:
    return f", {amounts.size(os.path.getsize(path))}" if os.path.exists(path) else ""


@contextlib.contextmanager
def _output(lake: Warehouse, path: str, *, force: bool) -> Iterator[BinaryIO]:
    """Where the rows go. A local file appears when it is whole."""
    from lakebed.core.location import Location
    from lakebed.storage.store import open_store

    if path == "-":
        yield sys.stdout.buffer
        return
    place = Location.parse(path, default_fs=lake._options.default_fs)
    store = open_store(place.parent, lake._options)
    if not force and store.exists(place.name):
        raise AlreadyExistsError(f"{path} is there already", fix="choose another name, or pass --force")
    if not place.is_local:
        with store.open_output(place.name) as stream:
            yield stream
        return
    with _whole(place) as stream:
        yield stream


@contextlib.contextmanager
def _whole(place: Location) -> Iterator[BinaryIO]:
    from lakebed.storage.failure import translated

    final = Path(place.path)
    draft = final.with_name(f".{final.name}.{uuid.uuid4().hex}.tmp")
    try:
        with translated("write", place.uri):
            stream = draft.open("wb")
        with stream:
            yield stream
        with translated("write", place.uri):
            draft.replace(final)
    finally:
        draft.unlink(missing_ok=True)


def recover(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="The table's directory, with its _delta_log.")],
    name: Annotated[str | None, typer.Option("--name", metavar="TABLE", help="Another name than the log has.")] = None,
) -> None:
    """Rebuild a table's metastore rows from its open log alone; the metastore is made if it is not there."""
    from lakebed.connection import recover as recovered
    from lakebed.core.errors import OptionError

    session = Session.of(context)
    try:
        settings = session.config()
        table = recovered(path, settings.warehouse.uri, settings.metastore_url, name)
    except OptionError:
        if session.warehouse is not None or session.metastore is not None:
            raise
        table = recovered(path, name=name)
    if session.json:
        screen.dump({"table": table.name, "version": table.version, "location": table.location})
        return
    screen.say(Cell(table.name, NAME), f": recovered at version {table.version}; tags are not in the log")
