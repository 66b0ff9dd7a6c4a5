"""Modules of the core, each as the first one that a program imports: none may need another to come before it."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import lakebed.core

_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    for known in [one for one in sys.modules if one.startswith("lakebed")]:
        del sys.modules[known]
    importlib.import_module(name)
"""


def test_every_module_of_the_core_can_come_first() -> None:
    found = [one.name for one in pkgutil.walk_packages(lakebed.core.__path__, "lakebed.core.")]
    assert "lakebed.core.statistics" in found
    done = subprocess.run([sys.executable, "-c", _EACH, *found], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
