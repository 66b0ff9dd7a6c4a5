"""What a task is sent: a work order in an envelope that says which Lakebed wrote it."""

from __future__ import annotations

import pickle
from typing import Any

from lakebed.core.errors import JobError
from lakebed.core.release import VERSION

FORMAT = 1
"""Of work orders and of the messages that come back."""

Envelope = tuple[int, str, bytes]


def seal(order: Any) -> Envelope:
    """The order, ready to be sent. It holds no session, connection or table object."""
    return FORMAT, VERSION, pickle.dumps(order, protocol=5)


def unseal(envelope: Envelope) -> Any:
    """The order. Raises JobError where the executor has another Lakebed than the driver.

    >>> unseal(seal({"rows": 1}))
    {'rows': 1}
    >>> unseal((FORMAT + 1, "9.0", b""))
    Traceback (most recent call last):
    lakebed.core.errors.JobError: the executors have another Lakebed than the driver; expected 9.0; found ...
    """
    sent_format, sent_version, body = envelope
    if (sent_format, sent_version) != (FORMAT, VERSION):
        raise JobError(
            "the executors have another Lakebed than the driver",
            expected=sent_version,
            found=VERSION,
            fix="ship the driver's package to the executors",
        )
    return pickle.loads(body)
