"""Lets the tests of merging share their small tables."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
