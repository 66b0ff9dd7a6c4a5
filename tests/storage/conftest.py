"""A store on local files and one on S3: one behaviour for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.storage.store import Store, open_store


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store on each kind of file system."""
    if request.param == "local":
        return open_store(Location.parse(tmp_path / "table"))
    server: Any = request.getfixturevalue("s3")
    location = Location.parse(f"s3://{server.new_bucket()}/warehouse/table")
    return open_store(location, Options.parse(server.options()))


@pytest.fixture
def local_store(tmp_path: Path) -> Store:
    """An empty store in a directory."""
    return open_store(Location.parse(tmp_path / "table"))
