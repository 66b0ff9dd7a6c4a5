"""Pages about Spark: their examples run with a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_docs import WITH_SPARK, run_examples

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.name)
def test_examples_run(page: Path, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(page, spark=spark)
