"""How the rows of one key become one: the merge engines, with the semantics that Paimon documents."""

from lakebed.core.merging.fold import fold
from lakebed.core.merging.refusals import check_rows
from lakebed.core.merging.spec import MergeSpec, changes_rows, check_spec

__all__ = ["MergeSpec", "changes_rows", "check_rows", "check_spec", "fold"]
