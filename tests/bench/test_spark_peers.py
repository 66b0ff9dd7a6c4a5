"""The benchmark against the peers on Spark, as far as it needs no Spark: inputs, who takes part, and the report."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import sqlglot
from rich.console import Console

from bench.peers.contenders import PEERS_PYTHON
from bench.spark_peers import inputs
from bench.spark_peers.contenders import BY_NAME, CONTENDERS, ROOT, chosen, yardstick
from bench.spark_peers.edit import DELETED, UPDATED, VALUES
from bench.spark_peers.found import Found
from bench.spark_peers.goals import lines
from bench.spark_peers.jars import JarsMissingError, fetch, project, reason
from bench.spark_peers.places import Places
from bench.spark_peers.process import Run
from bench.spark_peers.questions import statements
from bench.spark_peers.report import BEGIN, DOCS, END, PAGE, errors, markdown, render, table
from bench.spark_peers.sizes import Sizes
from bench.spark_peers.worker import said
from bench.spark_peers.workloads.names import WORKLOADS, named


@pytest.mark.parametrize("module", ["bench.__main__", "bench.upserts", "bench.spark_peers.__main__"])
def test_what_a_benchmark_takes_is_told(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main()
    assert ended.value.code == 0
    assert "--help" in capsys.readouterr().out


def test_the_input_is_the_same_every_time(tmp_path: Path) -> None:
    first, second = Places(tmp_path / "a"), Places(tmp_path / "b")
    inputs.make(first, Sizes.warm(), ["upserts"])
    inputs.make(second, Sizes.warm(), ["upserts"])
    paths = sorted(path.relative_to(first.root) for path in first.root.rglob("*.parquet"))
    assert len(paths) == 3 * inputs.FILES  # the table, one batch, and what is live after it
    for path in paths:
        assert pq.read_table(first.root / path).equals(pq.read_table(second.root / path))
    assert Sizes(**json.loads((first.root / "sizes.json").read_text())) == Sizes.warm()


def test_expected_rows_are_those_of_a_plain_dict(tmp_path: Path) -> None:
    places = Places(tmp_path / "in")
    inputs.make(places, Sizes.warm(), ["upserts"])
    model = {}
    for folder in (places.base, places.batch("batch", 0)):
        model |= {row["id"]: row for row in pq.read_table(folder).to_pylist()}
    found = pq.read_table(places.expected("upserts")).to_pylist()
    assert len(found) == len(model) > Sizes.warm().rows  # some keys of the batch were new
    assert {row["id"]: row for row in found} == model


def test_the_latest_input_wins_for_every_key(tmp_path: Path) -> None:
    parts = []
    for number, ids in enumerate(([0, 1, 2, 3], [1, 2], [2, 9])):
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(pa.table({"id": np.array(ids), "from": [number] * len(ids)}), folder / "0.parquet")
        parts.append(folder)
    inputs.live(tmp_path / "live", parts)
    live = pq.read_table(tmp_path / "live")
    assert dict(zip(live["id"].to_pylist(), live["from"].to_pylist(), strict=True)) == {0: 0, 1: 1, 2: 2, 3: 0, 9: 2}
    assert pc.count_distinct(live["id"]).as_py() == live.num_rows


def test_edits_are_expected_as_the_statements_say(tmp_path: Path) -> None:
    places = Places(tmp_path / "in")
    inputs.make(places, Sizes.warm(), ["edits"])
    query = duckdb.connect()
    left = pq.read_table(places.expected("deleted"))
    base = query.sql(f"SELECT * FROM '{places.base}/*.parquet' WHERE NOT ({DELETED})").to_arrow_table()
    assert left.sort_by("id").equals(base.cast(left.schema).sort_by("id"))
    names = ", ".join(f"{text} AS {name}" for name, text in VALUES.items())
    hit = query.sql(f"SELECT * REPLACE ({names}) FROM base WHERE {UPDATED}").to_arrow_table()
    updated = pq.read_table(places.expected("updated"))
    changed = updated.filter(pc.equal(updated["channel"], "changed"))
    assert changed.num_rows == hit.num_rows > 0
    assert changed.sort_by("id").equals(hit.cast(changed.schema).sort_by("id"))
    assert updated.num_rows == base.num_rows


def test_a_row_of_a_writer_follows_from_its_key(tmp_path: Path) -> None:
    places, sizes = Places(tmp_path / "in"), replace(Sizes.warm(), writers=3, writes=2)
    inputs.make(places, sizes, ["writers"])
    batches = [pq.read_table(places.batch("writer", number)) for number in range(6)]
    assert [batch["channel"].unique().to_pylist() for batch in batches] == [[f"writer-{n}"] for n in range(6)]
    said: dict[int, dict[str, object]] = {}
    own: set[int] = set()
    for batch in batches:
        ids = set(batch["id"].to_pylist())
        assert set(range(sizes.rows // 100)) < ids
        alone = {key for key in ids if key >= sizes.rows // 100}
        assert len(alone) == sizes.rows // 100
        assert not alone & own
        own |= alone
        for row in batch.drop_columns("channel").to_pylist():
            assert said.setdefault(row["id"], row) == row


def test_lookups_are_of_rows_that_are_live(tmp_path: Path) -> None:
    places = Places(tmp_path / "in")
    inputs.make(places, Sizes.warm(), ["lookups"])
    wanted = json.loads((places.root / "lookups.json").read_text())
    live = {row["id"]: row["reference"] for row in pq.read_table(places.expected("lookups")).to_pylist()}
    assert len(wanted["points"]) == len(wanted["ranges"]) == Sizes.warm().lookups
    assert all(live[key] == reference for key, reference in wanted["points"])
    assert all(0 <= first <= last < Sizes.warm().rows for first, last in wanted["ranges"])


def test_changes_trickles_and_partitions_have_their_sizes(tmp_path: Path) -> None:
    places, sizes = Places(tmp_path / "in"), Sizes.warm()
    inputs.make(places, sizes, ["changes", "trickle", "partitions"])
    assert pq.read_table(places.batch("changed", 0)).num_rows == sizes.rows // 100
    assert [pq.read_table(places.batch("trickle", n)).num_rows for n in range(sizes.trickles)] == [
        sizes.trickle
    ] * sizes.trickles
    parts = pq.read_table(places.expected("partitions"))["part"]
    assert pc.value_counts(parts).field("counts").to_pylist() == [2] * sizes.partitions


def test_there_are_22_queries_that_another_engine_understands() -> None:
    queries = statements((ROOT / "bench" / "spark_peers" / "tpch.sql").read_text())
    assert list(queries) == list(range(1, 23))
    for query in queries.values():
        assert len(sqlglot.parse(query, dialect="spark")) == 1


def test_sizes_at_scale_one_are_those_of_the_issue() -> None:
    full = Sizes.at(1)
    assert (full.rows, full.batch, full.upserts) == (10_000_000, 2_000_000, 10)
    assert (full.trickle, full.trickles, full.partitions, full.tpch, full.refreshes) == (10_000, 100, 10_000, 1.0, 10)


def test_everybody_has_a_yardstick_on_the_same_spark_and_pins() -> None:
    for contender in CONTENDERS:
        assert yardstick(contender).plain
        assert contender.ours or contender.plain or contender.jars
        pins = "dev" if contender.python == BY_NAME["parquet 4.3"].python else f"spark-{contender.spark}"
        assert f"pyspark=={contender.spark}." in (ROOT / "requirements" / f"{pins}.txt").read_text()


def test_a_word_chooses_contenders_and_their_yardsticks() -> None:
    assert [one.name for one in chosen(["delta"])] == ["delta", "parquet 4.2"]
    assert {one.name for one in chosen(["lakebed"])} == {"lakebed on-write", "lakebed on-read", "parquet 4.3"}
    assert chosen(None) == list(CONTENDERS)
    with pytest.raises(ValueError, match="no contender is called 'druid'; there are lakebed on-write"):
        chosen(["delta", "druid"])


def test_workloads_have_numbers_names_and_modules() -> None:
    for workload in WORKLOADS:
        assert named(str(workload.number)) is named(workload.name) is workload
        assert (ROOT / "bench" / "spark_peers" / "workloads" / f"{workload.name}.py").exists()
    with pytest.raises(ValueError, match="no workload '77'"):
        named("77")


def test_a_project_for_maven_names_no_repository() -> None:
    text = project(BY_NAME["delta"].jars)
    assert "<artifactId>delta-spark_4.2_2.13</artifactId>" in text
    assert "://" not in text
    assert "repository" not in text


def test_without_maven_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch((), folder=tmp_path) == []
    with pytest.raises(JarsMissingError, match="no mvn on the PATH"):
        fetch(BY_NAME["delta"].jars, folder=tmp_path)


def test_jars_in_the_cache_are_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    place = tmp_path / "g-a-1"
    place.mkdir()
    (place / "a.jar").touch()
    assert fetch(("g:a:1",), folder=tmp_path) == [place / "a.jar"]


def test_figures_of_two_runs_go_together_if_they_are_of_one_size() -> None:
    def of(date: str, workload: str, sizes: Sizes) -> Found:
        facts = {"date": date, "load at start": "1.0", "machine": "a machine"}
        made = Found(facts, sizes.to_json(), {"delta": {"spark": date}})
        made.add(workload, "delta", Run(seconds=1.0))
        return made

    first, second = of("today", "upserts", Sizes.warm()), of("yesterday", "tpch", Sizes.warm())
    both = first.with_others(second)
    assert set(both.runs) == {("upserts", "delta"), ("tpch", "delta")}
    told = "(load at start 1.0; a machine)"
    assert both.facts == first.facts | {"run of yesterday": f"tpch {told}"}
    third = both.with_others(of("long ago", "edits", Sizes.warm()))
    assert of("now", "keys", Sizes.warm()).with_others(third).facts.keys() >= {
        "run of today",
        "run of yesterday",
        "run of long ago",
    }
    assert both.contenders["delta"]["spark"] == "today"
    assert first.with_others(of("yesterday", "upserts", Sizes.warm())).to_json() == first.to_json()
    with pytest.raises(ValueError, match="two sizes"):
        first.with_others(of("yesterday", "tpch", Sizes.at(1)))


def test_errors_are_told_without_addresses_and_stacks() -> None:
    text = "boom\n\tat java.lang.Thread.run\nsee https://example.com/x for more\n\nJVM stacktrace:\nat y"
    assert said(ValueError(text)) == "ValueError: boom see … for more"
    assert reason("[ERROR] Could not find artifact a:b:1 in central (https://example.com)").endswith("in central")


def example() -> Found:
    facts = dict.fromkeys(("date", "machine", "load at start", "python", "packages", "java", "session", "scale"), "?")
    found = Found(facts, Sizes.warm().to_json())
    for name, second in (("lakebed on-write", 1.0), ("delta", 11.0), ("parquet 4.3", 0.5), ("parquet 4.2", 0.4)):
        found.contenders[name] = {"spark": BY_NAME[name].spark, "jars": "", "how": "a | b"}
        for shift in (0.0, 0.1, 5.0):
            steps = [
                {"step": "load", "number": 0, "seconds": 3.0, "cpu": 1.0, "disk": 2**20, "files": 4, "peak": 1.0},
                *(
                    {
                        "step": "upsert",
                        "number": number,
                        "seconds": second + shift,
                        "cpu": 1.0,
                        "written": 300,
                        "source": 100,
                        "disk": 2**21,
                        "files": 8,
                        "peak": 1.5,
                    }
                    for number in range(2)
                ),
            ]
            found.add("upserts", name, Run(steps))
    found.add("upserts", "iceberg", Run(error="rows: expected [2], found [1]"))
    found.absent["hudi mor"] = "no JARs"
    return found


def test_figures_are_medians_over_runs_and_only_of_right_rows() -> None:
    found = example()
    assert found.figure("upserts", "delta", "upsert") == pytest.approx(11.1)
    assert found.series("upserts", "delta", "upsert") == [(0, pytest.approx(11.1)), (1, pytest.approx(11.1))]
    assert found.amplification("upserts", "delta", ("upsert",)) == 3.0
    assert found.figure("upserts", "iceberg", "upsert") is None
    assert found.error("upserts", "iceberg") == "rows: expected [2], found [1]"
    assert found.error("upserts", "hudi mor") == "no JARs"
    assert Found.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_of_what_is_asked_again_the_median_counts_and_the_first_is_shown() -> None:
    found = Found(example().facts, Sizes.warm().to_json())
    for name in ("lakebed on-write", "parquet 4.3"):
        found.contenders[name] = {"spark": BY_NAME[name].spark, "jars": "", "how": ""}
        steps = [
            {"step": step, "number": number, "seconds": seconds, "cpu": 1.0}
            for step in ("upsert", "read")
            for number, seconds in enumerate((9.0, 1.0, 2.0))
        ]
        found.add("upserts", name, Run(steps))
    assert found.figure("upserts", "lakebed on-write", "read") == 2.0
    assert found.figure("upserts", "lakebed on-write", "upsert") == 4.0
    head, row, _ = table(found, named("upserts"))
    shown = dict(zip(head, row, strict=True))
    assert (shown["full read"], shown["first read"], shown["upsert"]) == ("2 s (1.0)", "9 s (1.0)", "4 s (1.0)")


def test_the_report_has_ratios_and_failures() -> None:
    found, workload = example(), named("upserts")
    head, *rows = table(found, workload)
    assert [row[0] for row in rows] == ["lakebed on-write", "delta", "parquet 4.3", "parquet 4.2"]
    delta = dict(zip(head, rows[1], strict=True))
    assert delta["upsert"] == "11.1 s (22.2)"
    assert (delta["written / given"], delta["on disk"], delta["peak memory"]) == ("3.00", "2.0 MiB", "1.50 GiB")
    assert errors(found, workload) == [("iceberg", "rows: expected [2], found [1]")]
    found.runs["upserts", "delta"][1].said.append("too late: [/tmp/a]")
    assert errors(found, workload)[0] == ("delta", "refused: too late: [/tmp/a]")
    console = Console(record=True, width=200)
    render(console, found)
    assert "refused: too late: [/tmp/a]" in console.export_text()
    text = markdown(found, ["peers-upserts.svg"])
    assert "(peers-upserts.svg)" in text
    assert "memory.svg" not in text
    assert "| delta | 4.2 |" in text
    assert "a \\| b" in text
    assert "hudi mor did not take part: no JARs" in text


def test_a_run_with_wrong_rows_is_told_though_others_were_right() -> None:
    found = example()
    found.add("upserts", "delta", Run(error="rows: expected [3], found [4]"))
    assert ("delta", "rows: expected [3], found [4]") in errors(found, named("upserts"))
    assert found.error("upserts", "delta") == "", "the times of the other runs count"
    assert "- delta: rows: expected [3], found [4]" in markdown(found, [])


def test_each_query_of_tpch_is_shown() -> None:
    found = Found(example().facts, Sizes.warm().to_json())
    for name, factor in (("lakebed on-write", 1.0), ("delta", 2.0)):
        found.contenders[name] = {"spark": BY_NAME[name].spark, "jars": "", "how": ""}
        steps = [{"step": "query", "number": n, "seconds": n * factor, "cpu": 1.0} for n in range(1, 23)]
        found.add("tpch", name, Run(steps))
    text = markdown(found, [])
    assert "|  | lakebed on-write | delta |" in text
    assert "| 22 | 22 | 44 |" in text


def test_what_deletes_and_updates_write_is_told() -> None:
    found = Found(example().facts, Sizes.warm().to_json())
    found.contenders["delta"] = {"spark": "4.2", "jars": "", "how": ""}
    about = {"seconds": 1.0, "cpu": 1.0, "number": 0, "files": 2}
    steps = [{"step": "delete", "written": 10, "disk": 2**20, **about}]
    steps += [{"step": "update", "written": 30, "disk": 3 * 2**20, **about}]
    found.add("edits", "delta", Run(steps))
    head, row = table(found, named("edits"))
    shown = dict(zip(head, row, strict=True))
    assert (shown["bytes written by delete"], shown["bytes written by update"]) == ("10", "30")
    assert (shown["on disk"], shown["files"]) == ("3.0 MiB", "2")


def test_the_charts_are_drawn_with_their_units(tmp_path: Path) -> None:
    if not PEERS_PYTHON.exists():
        pytest.skip(f"matplotlib is in {PEERS_PYTHON.parents[1].name}, which `make peers` makes")
    figures = tmp_path / "peers.json"
    figures.write_text(json.dumps(example().to_json()))
    order = [str(PEERS_PYTHON), "-m", "bench.spark_peers.charts", str(figures), str(tmp_path)]
    drawn = json.loads(subprocess.run(order, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    assert drawn == ["peers-upserts.svg", "peers-amplification.svg", "peers-disk.svg", "peers-memory.svg"]
    text = (tmp_path / "peers-upserts.svg").read_text()
    for words in ("Large upserts, one by one", "seconds", "lakebed on-write", "delta"):
        assert f">{words}<" in text


def test_goals_compare_with_the_default_of_lakebed() -> None:
    judged = {line.what: line for line in lines(example())}
    upsert = judged["upserts, upsert: delta / lakebed on-write"]
    assert upsert.value == pytest.approx(11.1 / 1.1)
    assert upsert.met
    assert "22.20 against 1.83" in upsert.note


def test_the_page_has_a_place_for_the_figures() -> None:
    text = (DOCS / f"{PAGE}.md").read_text()
    assert text.count(BEGIN) == text.count(END) == 1


def test_of_what_is_asked_many_times_the_last_answers_count() -> None:
    found = Found(example().facts, Sizes.warm().to_json())
    steps = [
        {"step": "read", "number": number, "seconds": seconds, "cpu": 1.0}
        for number, seconds in enumerate((9.0, 8.0, 7.0, 6.0, 3.0, 1.0, 2.0, 1.0, 2.0))
    ]
    found.add("upserts", "delta", Run(steps))
    assert found.figure("upserts", "delta", "read") == 2.0
    assert found.first("upserts", "delta", "read") == 9.0
