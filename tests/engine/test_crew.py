"""The threads that writers share."""

from __future__ import annotations

import os
import threading
import time

import pytest

from lakebed.engine.crew import Crew


def test_threads_are_used_again() -> None:
    with Crew() as crew:
        crew.submit(int).result()
    before = _threads()
    for _ in range(20):
        with Crew() as crew:
            assert crew.submit(threading.get_ident).result() in before
    assert _threads() == before


def _threads() -> set[int | None]:
    return {one.ident for one in threading.enumerate() if one.name.startswith("lakebed-crew")}


def test_leaving_by_an_exception_waits_for_every_task() -> None:
    done = []

    def work() -> None:
        time.sleep(0.05)
        done.append(True)

    with pytest.raises(ValueError, match="meanwhile"), Crew() as crew:
        crew.submit(work)
        raise ValueError("meanwhile")
    assert done == [True]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    with Crew() as crew:
        crew.submit(int).result()
    child = os.fork()
    if not child:
        with Crew() as crew:
            os._exit(crew.submit(lambda: 7).result(timeout=10))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
