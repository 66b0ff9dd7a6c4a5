"""A resolution is made once, kept as long as there is room, and never kept when it failed."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyroaring import BitMap64

from lakebed.engine import resolution_cache
from lakebed.engine.resolution_cache import ResolutionCache, size_of
from lakebed.engine.resolve import Resolution


def made(count: int) -> Resolution:
    return Resolution({"a.parquet": BitMap64(range(0, 3 * count, 3))})


def test_the_second_asker_gets_the_same_object() -> None:
    cache, first = ResolutionCache(), made(3)
    assert cache.get("k", lambda: first) is first
    assert cache.get("k", lambda: made(4)) is first


def test_threads_that_ask_at_once_get_one_computation() -> None:
    cache, go, calls = ResolutionCache(), threading.Event(), []

    def make() -> Resolution:
        calls.append(1)
        go.wait(10)
        return made(3)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.get, "k", make) for _ in range(8)]
        go.set()
        found = {id(one.result(10)) for one in asked}
    assert len(found) == len(calls) == 1


def test_a_failure_reaches_the_asker_and_is_not_kept() -> None:
    cache = ResolutionCache()
    with pytest.raises(ZeroDivisionError):
        cache.get("k", lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    assert len(cache.get("k", lambda: made(3)).dead["a.parquet"]) == 3


def test_what_was_used_longest_ago_leaves_first() -> None:
    one = made(1000)
    cache = ResolutionCache(limit=2 * size_of(one))
    cache.get("a", lambda: one)
    cache.get("b", lambda: made(1000))
    cache.get("a", lambda: made(1))
    cache.get("c", lambda: made(1000))
    assert cache.get("a", lambda: made(1)) is one
    assert len(cache.get("b", lambda: made(1)).dead["a.parquet"]) == 1
    assert cache.num_bytes <= 2 * size_of(one)


def test_one_larger_than_the_cache_is_given_but_not_kept() -> None:
    cache = ResolutionCache(limit=1)
    assert len(cache.get("k", lambda: made(1000)).dead) == 1
    assert cache.num_bytes == 0


def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    shared = resolution_cache._shared
    with shared._lock:
        child = os.fork()
        if not child:
            resolution_cache._shared.get("k", lambda: made(1))
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert resolution_cache._shared is shared
