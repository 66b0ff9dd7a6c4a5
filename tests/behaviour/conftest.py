"""The same warehouse without Spark, with Spark, and through Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from worlds import World

import lakebed

# With Spark each test takes seconds: of the suite these are run every time, the others in the soak.
SHORT = {
    "spark": {"test_maintenance"},
    "connect": {"test_every_type", "test_save_modes", "test_upsert_settle_and_what_others_see[connect-on-read]"},
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        kind = getattr(item, "callspec", None) and item.callspec.params.get("world")
        if kind in SHORT and not {item.name, item.originalname} & SHORT[kind]:
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server in a process of its own."""
    from spark_cluster import connect_server
    from spark_sessions import SETTINGS

    with connect_server(tmp_path_factory.mktemp("connect"), SETTINGS) as url:
        yield url


@pytest.fixture(
    params=[
        "engine",
        pytest.param("spark", marks=pytest.mark.spark),
        pytest.param("connect", marks=pytest.mark.spark),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Each of the three; maintenance is left to Spark where there is one."""
    from spark_sessions import beside_another

    root = tmp_path / "warehouse"
    if request.param == "engine":
        with lakebed.connect(root) as lake:
            yield World(lake)
    elif request.param == "spark":
        session = request.getfixturevalue("spark")
        with lakebed.connect(root, spark=session, distribute_from=0) as lake:
            yield World(lake, session)
    else:
        url = request.getfixturevalue("connect_url")
        with beside_another(url) as session, lakebed.connect(root, spark=session, distribute_from=0) as lake:
            yield World(lake, session)
