"""Rules about the repository's text that no linter checks."""

import ast
import re
import subprocess
import sys
import tomllib
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


def imported(path: Path, *, at_once: bool) -> set[str]:
    """The packages that a module imports: when it is imported itself, or ever."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        later = isinstance(node, ast.FunctionDef) and at_once
        if for_types or later:
            node.body = []  # type: ignore[attr-defined]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found - sys.stdlib_module_names - {"lakebed"}


def test_what_is_imported_is_declared() -> None:
    """Tests run where much more is installed than `pip install lakebed` brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    def packages(requirements: list[str]) -> set[str]:
        names = {re.split(r"[^\w-]", text)[0].lower().replace("-", "_") for text in requirements}
        return names | ({"pygments"} if "rich" in names else set())

    always = packages(project["dependencies"])
    extras = always | packages([text for some in project["optional-dependencies"].values() for text in some])
    for path in SOURCES:
        missing = {name for name in imported(path, at_once=False) if name.lower() not in extras}
        assert not missing, f"{path.relative_to(ROOT)} imports {missing}, which pyproject.toml does not name"
        in_spark = path.is_relative_to(ROOT / "src" / "lakebed" / "spark")
        missing = {name for name in imported(path, at_once=True) if name.lower() not in always}
        assert in_spark or not missing, f"{path.relative_to(ROOT)} needs {missing}, which only an extra brings"
