import threading

import pytest

from lakebed.core.actions import AddFile, Metadata, Protocol, to_lines
from lakebed.core.errors import CorruptFileError, MetastoreError
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.core.steps import Step, observe
from lakebed.delta import publish as publish_module
from lakebed.delta.checkpoint import write_checkpoint
from lakebed.delta.log import read_log
from lakebed.delta.publish import publish
from lakebed.storage.store import open_store


class Commits:
    """A metastore's share of publishing: bodies by version and how far they are marked."""

    def __init__(self, count, marked=-1):
        self.bodies = {version: f'{{"commitInfo":{{"v":{version}}}}}\n' for version in range(count)}
        self.marked = marked

    def unpublished(self, limit):
        return [(v, body) for v, body in sorted(self.bodies.items()) if v > self.marked][:limit]

    def mark_published(self, version):
        self.marked = max(self.marked, version)


BATCH = 4


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(publish_module, "BATCH", BATCH)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def store(request, tmp_path):
    if request.param == "local":
        return open_store(Location.parse(tmp_path))
    server = request.getfixturevalue("s3")
    location = Location.parse(f"s3://{server.new_bucket()}/warehouse/table")
    return open_store(location, Options.parse(server.options()))


def published(store):
    return {info.path: store.read(info.path).decode() for info in store.list("_delta_log")}


def as_files(commits):
    return {f"_delta_log/{version:020d}.json": body for version, body in commits.bodies.items()}


def test_every_commit_becomes_the_file_of_its_version(store):
    commits = Commits(2 * BATCH + 3)
    assert publish(store, commits) == 2 * BATCH + 2
    assert published(store) == as_files(commits)
    assert publish(store, commits) == -1


def test_publishing_stops_at_the_wanted_version(store):
    commits = Commits(5)
    assert publish(store, commits, upto=2) == 2
    assert commits.marked == 2
    assert len(published(store)) == 3


@pytest.mark.parametrize("step", [Step.PUBLISH_BEGUN, Step.PUBLISH_WRITTEN, Step.PUBLISH_MARKED])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_death_at_any_step_is_repaired_by_the_next_publisher(store, step, nth):
    commits = Commits(3)
    seen = []

    def die(reached):
        if reached is step:
            seen.append(reached)
            if len(seen) == nth:
                raise KeyboardInterrupt

    stop = observe(die)
    try:
        publish(store, commits)
    except KeyboardInterrupt:
        versions = sorted(published(store))
        assert versions == sorted(as_files(commits))[: len(versions)]
    finally:
        stop()
    publish(store, commits)
    assert published(store) == as_files(commits)
    assert commits.marked == 2


def test_several_publishers_at_once_write_each_commit_once(store):
    commits = Commits(12)
    failures = []

    def run():
        try:
            publish(store, commits)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert published(store) == as_files(commits)


def test_another_publisher_that_went_ahead_is_no_gap(store):
    commits = Commits(3 * BATCH)
    marked = commits.mark_published
    commits.mark_published = lambda version: marked(version + BATCH)
    publish(store, commits)
    assert commits.marked >= 3 * BATCH - 1


def test_a_foreign_commit_in_our_log_is_refused_and_kept(store):
    commits = Commits(3)
    store.put("_delta_log/00000000000000000001.json", b'{"commitInfo":{"engineInfo":"another"}}\n')
    with pytest.raises(CorruptFileError, match=r"0001\.json is not the commit .* stop the other writer"):
        publish(store, commits)
    assert b"another" in store.read("_delta_log/00000000000000000001.json")
    assert not store.exists("_delta_log/00000000000000000002.json")
    assert commits.marked == -1


def test_a_gap_is_refused_before_anything_is_written(store):
    commits = Commits(4)
    del commits.bodies[2]
    with pytest.raises(MetastoreError, match="found 0, 1, 3"):
        publish(store, commits)
    assert published(store) == {}


def test_what_was_published_and_checkpointed_reads_back(store):
    commits = Commits(3)
    first = [Protocol(1, 2), Metadata("t", '{"type":"struct","fields":[]}')]
    commits.bodies[0] = to_lines(first)
    commits.bodies[1] = to_lines([AddFile("a.parquet", {}, 10, 0, False)])
    publish(store, commits)
    before = read_log(store)
    write_checkpoint(store, 2, protocol=first[0], metadata=first[1], adds=before.files.values())
    store.delete_many(as_files(commits))
    assert read_log(store).files == before.files


def test_a_source_that_does_not_move_on_is_an_error_and_no_endless_loop(store):
    commits = Commits(2)
    commits.mark_published = lambda version: None
    with pytest.raises(MetastoreError, match="not in order"):
        publish(store, commits)
