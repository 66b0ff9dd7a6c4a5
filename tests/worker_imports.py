"""Imported once, in the process from which those of worker_processes.py are forked: what is slow to import.

Not polars, and so nothing of Lakebed: polars does not survive a fork.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401
import psycopg  # noqa: F401
import pyarrow.compute
import pyarrow.dataset
import pyarrow.fs
import pyarrow.json
import pyarrow.parquet  # noqa: F401
import pyroaring  # noqa: F401
import pytest  # noqa: F401
import sqlalchemy.dialects.postgresql
import sqlalchemy.dialects.sqlite
import sqlalchemy.ext.compiler  # noqa: F401
import sqlglot.dialects.spark  # noqa: F401

# The collector of a forked process would otherwise look at all of this, and so copy its memory.
gc.freeze()
