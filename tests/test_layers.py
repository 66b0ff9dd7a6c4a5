"""Rules about the repository's text that no linter checks."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# In pieces, so that this file does not contain what it forbids.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("registry", "npmjs", "org"),
        ("conda", "anaconda", "org"),
    )
]
INDEX_OPTIONS = ["--" + "index-url", "--" + "extra-index-url", "--" + "find-links", "--" + "trusted-host"]


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git work tree")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


@pytest.mark.parametrize("word", ["_jvm", "py4j", "sparkContext"])
def test_source_stays_within_spark_connect(word: str) -> None:
    hits = [str(path.relative_to(ROOT)) for path in SOURCES if word in path.read_text("utf-8")]
    assert not hits, f"{word} does not exist on Spark Connect; found in {hits}"


def test_no_tracked_file_names_a_package_registry() -> None:
    hits = [
        f"{path.relative_to(ROOT)}: {host}"
        for path in tracked_files()
        if path.is_file()
        for text in [path.read_bytes().decode("utf-8", "replace").lower()]
        for host in REGISTRY_HOSTS
        if host in text
    ]
    assert not hits, f"packages come from the configured client, not from an address: {hits}"


def test_requirements_choose_no_index() -> None:
    hits = [
        f"{path.name}: {option}"
        for path in sorted((ROOT / "requirements").iterdir())
        for option in INDEX_OPTIONS
        if option in path.read_text("utf-8")
    ]
    assert not hits, f"the machine's pip settings choose the index: {hits}"
