"""Unsettled files in the open log, where readers of other engines must not see them yet.

In memory and in the metastore an unsettled file is an ``AddFile`` with a tag. In the log it is a domain of its
own, which carries the add as JSON: other readers pass over it, and no file is lost with the metastore. The
domain is removed when the file settles, and then a plain ``add`` follows, or when it leaves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from lakebed.core.actions import Action, AddFile, DomainMetadata, RemoveFile, from_object, to_object
from lakebed.core.errors import CorruptFileError
from lakebed.core.file_tags import UNSETTLED, is_unsettled

DOMAIN_PREFIX = "lakebed.unsettled:"


def to_log(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions of a commit as the open log tells them; the order stays.

    >>> file = AddFile("a.parquet", {}, 10, 0, True, tags={UNSETTLED: "true"})
    >>> [domain] = to_log([file])
    >>> domain.domain, from_log([domain]) == (file,)
    ('lakebed.unsettled:a.parquet', True)
    """
    given = tuple(actions)
    entering = {a.path for a in given if isinstance(a, AddFile) and is_unsettled(a)}
    return tuple(_logged(given, entering))


def _logged(actions: Iterable[Action], entering: set[str]) -> Iterator[Action]:
    for action in actions:
        if not isinstance(action, AddFile | RemoveFile) or not is_unsettled(action):
            yield action
        elif isinstance(action, AddFile):
            yield unsettled_domain(action)
        elif action.path not in entering:
            # A commit may name a domain only once: a file that comes back at once is simply set anew.
            yield DomainMetadata(DOMAIN_PREFIX + action.path, _dump(action), removed=True)


def unsettled_domain(add: AddFile) -> DomainMetadata:
    """The domain that an unsettled file is in the open log.

    >>> unsettled_domain(AddFile("a.parquet", {}, 10, 0, True, tags={UNSETTLED: "true"})).removed
    False
    """
    return DomainMetadata(DOMAIN_PREFIX + add.path, _dump(add))


def is_unsettled_domain(action: Action) -> bool:
    """Whether an action of the open log tells of an unsettled file.

    >>> is_unsettled_domain(DomainMetadata("delta.rowTracking", "{}"))
    False
    """
    return isinstance(action, DomainMetadata) and action.domain.startswith(DOMAIN_PREFIX)


def from_log(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The inverse of ``to_log``, for the actions of a commit or of a checkpoint. Raises CorruptFileError.

    >>> from_log([DomainMetadata("lakebed.unsettled:a.parquet", "", removed=True)])
    (RemoveFile(path='a.parquet', data_change=True, ...),)
    """
    return tuple(_told(action) for action in actions)


def _told(action: Action) -> Action:
    if not isinstance(action, DomainMetadata) or not is_unsettled_domain(action):
        return action
    path = action.domain.removeprefix(DOMAIN_PREFIX)
    if action.removed:
        # Other writers may remove a domain too, and need not say more than its name.
        remove: RemoveFile | None = _load(action.configuration, RemoveFile, path)
        return remove or RemoveFile(path, data_change=True, tags={UNSETTLED: "true"})
    add: AddFile | None = _load(action.configuration, AddFile, path)
    if add is None:
        raise CorruptFileError(
            f"the log's domain {action.domain} does not tell of that file",
            expected="the JSON of an unsettled file's add",
            found=action.configuration[:120],
        )
    return add


def _dump(file: AddFile | RemoveFile) -> str:
    return json.dumps(to_object(file), separators=(",", ":"), ensure_ascii=False)


def _load(text: str, kind: type[Any], path: str) -> Any:
    """The action of that unsettled file in a configuration; None if there is none."""
    try:
        file = from_object(kind, json.loads(text))
        return file if file.path == path and is_unsettled(file) else None
    except (ValueError, TypeError, AttributeError):
        return None
