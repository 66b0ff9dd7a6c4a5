"""Loading files into tables, each of them once."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakebed.core.errors import ConflictError, InputError, NotFoundError
from lakebed.engine.draft import Draft
from lakebed.engine.file_formats import FORMATS, FileFormat
from lakebed.engine.fit import fitted
from lakebed.engine.load_files import FileRows, loaded_files, mark_loaded
from lakebed.engine.overwrite import append
from lakebed.records import Copied
from lakebed.storage.file_glob import SourceFile, find_files
from lakebed.table import Table


class FileLoading(ABC):
    """Has tables that files can be loaded into."""

    @abstractmethod
    def _target(self, name: str) -> Table:
        """The table of that name."""

    def copy_into(
        self,
        table: str | Table,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        header: bool = True,
        delimiter: str = ",",
        null_values: Iterable[str] = ("",),
        merge_schema: bool = False,
        force: bool = False,
    ) -> Copied:
        """Load the files that are at a path, or match a pattern like ``s3://in/2026-*/*.parquet``, each of them once.

        The commit itself records which files it has loaded: run it again, or twice at once, and none is loaded
        twice. A file is known by its path; one that has changed since is not loaded again, unless ``force`` loads all.
        ``format`` is ``parquet``, ``csv`` or ``json`` (a row on each line); without it the ending of each file tells.
        ``header``, ``delimiter`` and ``null_values`` are about CSV. ``merge_schema`` adds columns that the table
        lacks. In a table with a primary key the rows are upserted, files in the order of their paths. Raises
        NotFoundError if there is no such file, and DataError that names the file whose rows do not fit; nothing is
        loaded then.

        >>> import lakebed, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "mon.csv").write_text("id,name\\n1,ann\\n2,bob\\n")
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> users = lake.create_table("users", "id BIGINT, name STRING")
        >>> lake.copy_into("users", folder / "*.csv").rows
        2
        >>> _ = (folder / "tue.csv").write_text("id,name\\n3,eve\\n")
        >>> done = lake.copy_into("users", folder / "*.csv")
        >>> len(done.files), len(done.skipped), done.rows, users.count()
        (1, 1, 1, 3)
        """
        if format is not None and format not in FORMATS:
            raise InputError("there is no such format of files", expected=", ".join(FORMATS), found=repr(format))
        if len(delimiter) != 1:
            raise InputError("delimiter= is one letter", found=repr(delimiter))
        target = table if isinstance(table, Table) else self._target(table)
        how = FileFormat(format, header, delimiter, tuple(null_values))
        files = find_files(path, target._options)
        if not files:
            raise NotFoundError(f"table {target.name}: there is no file to load at {os.fspath(path)}")
        for file in files:
            how.of(file)
        return _Copy(target, tuple(files), how, str(os.fspath(path)), merge_schema, force).run()


class _AllLoadedError(Exception):
    """Carries out of an attempt that there is nothing to load."""


@dataclass
class _Copy:
    """One call, over all its attempts."""

    table: Table
    files: tuple[SourceFile, ...]
    format: FileFormat
    path: str
    merge_schema: bool
    force: bool
    chosen: tuple[SourceFile, ...] = field(default=(), init=False)

    def run(self) -> Copied:
        """Load what is not loaded yet; whoever else loads the same files at the same time, each is loaded once."""
        attempts = self.table._options.commit_retries + 1
        for _ in range(attempts):
            try:
                commit = self.table._change(self._load)
            except _AllLoadedError:
                return Copied(self.table.name, None, (), tuple(file.uri for file in self.files), 0)
            except ConflictError:
                if not self._overtaken():
                    raise
                continue
            if not commit.repeated:
                return self._copied(commit.version, commit.metrics.get("numSourceRows", 0))
        raise ConflictError(
            f"table {self.table.name}: others have loaded some of the files {attempts} times meanwhile",
            fix="nothing was changed; run it again",
        )

    def _load(self, draft: Draft) -> None:
        before = loaded_files(draft, self.files)
        self.chosen = self.files if self.force else tuple(f for f in self.files if f.uri not in before)
        if not self.chosen:
            raise _AllLoadedError
        mark_loaded(draft, self.chosen, before)
        rows = fitted(
            draft,
            FileRows(draft, self.chosen, self.format),
            merge_schema=self.merge_schema,
            explicit_cast=False,
        )
        draft.parameters["source"] = self.path
        append(draft, rows)

    def _overtaken(self) -> bool:
        """Whether somebody else has loaded some of the files that were to be loaded."""
        draft = Draft(self.table._handle, self.table._state())
        return not self.force and bool(loaded_files(draft, self.chosen))

    def _copied(self, version: int, rows: int) -> Copied:
        loaded = {file.uri for file in self.chosen}
        skipped = tuple(file.uri for file in self.files if file.uri not in loaded)
        return Copied(self.table.name, version, tuple(file.uri for file in self.chosen), skipped, rows)
