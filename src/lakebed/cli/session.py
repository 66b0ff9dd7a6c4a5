"""One run of the command: what its global options say, and the warehouse that they lead to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from lakebed.config import NO_WAREHOUSE, Config, load
from lakebed.core.errors import LakebedError, MetastoreError, OptionError

if TYPE_CHECKING:
    from lakebed.metastore.glance import Glance
    from lakebed.metastore.overview import Overview
    from lakebed.warehouse import Warehouse

_JAVA = "install Java 17 or newer and set JAVA_HOME; `lakebed doctor` looks for it"


@dataclass(frozen=True)
class Session:
    """The global options. Nothing is opened until it is asked for."""

    warehouse: str | None = None
    metastore: str | None = None
    json: bool = False
    spark: bool = False
    debug: bool = False

    @staticmethod
    def of(context: typer.Context) -> Session:
        """The session of a command."""
        session = context.find_object(Session)
        return Session() if session is None else session

    def config(self) -> Config:
        """Where the warehouse and its metastore are. Raises OptionError."""
        try:
            return load(self.warehouse, self.metastore)
        except OptionError as error:
            if error.what != NO_WAREHOUSE:
                raise
            fix = 'pass --warehouse, set LAKEBED_WAREHOUSE, or write warehouse = "…" into lakebed.toml'
            raise OptionError(error.what, fix=fix) from None

    @contextmanager
    def glance(self) -> Iterator[Glance]:
        """A look at the metastore alone, which needs neither Arrow nor Spark."""
        from lakebed.metastore.glance import open_glance

        config = self.config()
        with _there(config), open_glance(config.metastore_url) as opened:
            yield opened

    def overviews(self, namespace: str | None = None) -> list[Overview]:
        """All tables, or those of a namespace. Raises NotFoundError if there is no such namespace."""
        from lakebed.metastore.overview import overviews_in_file

        if (found := overviews_in_file(self.config().metastore_url, namespace)) is not None:
            return found
        with self.glance() as metastore:
            if namespace is not None:
                metastore.namespace(namespace)
            return metastore.overviews(namespace)

    @contextmanager
    def lake(self) -> Iterator[Warehouse]:
        """The warehouse, with Spark if ``--spark`` was given. One that is not there is not made."""
        from lakebed.connection import open_warehouse

        config = self.config()
        with _there(config), _spark(wanted=self.spark) as spark, open_warehouse(config, spark, create=False) as opened:
            yield opened


@contextmanager
def _there(config: Config) -> Iterator[None]:
    """A missing warehouse is told in the words of commands."""
    try:
        yield
    except MetastoreError as error:
        if not error.what.startswith("there is no metastore"):
            raise
        raise MetastoreError(
            f"there is no warehouse at {config.warehouse}",
            found=error.what,
            fix="check the path, or make it with `lakebed init`",
        ) from error


@contextmanager
def _spark(*, wanted: bool) -> Iterator[Any]:
    """A local Spark session that says little; None if it is not wanted."""
    if not wanted:
        yield None
        return
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise LakebedError(
            "--spark needs pyspark, which is not installed", fix="pip install 'lakebed[spark]'"
        ) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]").appName("lakebed")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise LakebedError("Spark does not start", found=f"{type(error).__name__}: {error}", fix=_JAVA) from error
    try:
        yield session
    finally:
        session.stop()
