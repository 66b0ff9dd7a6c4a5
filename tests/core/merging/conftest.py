"""Lets the tests of merging share their small tables."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # not first: tests/conftest.py is imported by name
