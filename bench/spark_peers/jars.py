"""The peers' published JARs, fetched once by Maven as this machine has it configured, and kept in a cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>
    </dependency>"""
_ADDRESS = re.compile(r"\w+://[^\s)\]]+")


class JarsMissingError(Exception):
    """The JARs of a contender cannot be had; the text says why and what to do."""


def cache() -> Path:
    """Where JARs stay between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakebed" / "peers"


def fetch(coordinates: tuple[str, ...], *, alone: bool = False, folder: Path | None = None) -> list[Path]:
    """The JARs of these coordinates, and what they say to need at run time unless they are bundles and stand alone.

    Spark's own classes come first, so what it has already is not taken from here.

    Raises JarsMissingError if Maven is not there or does not find them.
    """
    if not coordinates:
        return []
    place = (folder or cache()) / "+".join(one.replace(":", "-") for one in coordinates)
    if not place.exists():
        _download(coordinates, place, alone=alone)
    return sorted(place.glob("*.jar"))


def _download(coordinates: tuple[str, ...], place: Path, *, alone: bool) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissingError(
            f"{', '.join(coordinates)} cannot be fetched: there is no mvn on the PATH. Install Maven (Debian: apt-get "
            "install maven) and, if this machine reaches Maven Central through a mirror, configure it in settings.xml"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        # The folder gets its name last: one that is there is complete.
        pom, jars = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(project(coordinates))
        order = [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        order += [f"-DoutputDirectory={jars}", "-DincludeScope=runtime", f"-DexcludeTransitive={str(alone).lower()}"]
        done = subprocess.run(order, capture_output=True, text=True, check=False)
        if done.returncode or not list(jars.glob("*.jar")):
            raise JarsMissingError(f"{', '.join(coordinates)}: {reason(done.stdout + done.stderr)}")
        jars.rename(place)


def project(coordinates: tuple[str, ...]) -> str:
    """A Maven project that needs nothing but these."""
    parts = (dict(zip(("group", "artifact", "version"), one.split(":"), strict=True)) for one in coordinates)
    return _POM.format(dependencies="\n".join(_DEPENDENCY.format(**part) for part in parts))


def reason(text: str) -> str:
    """The line of Maven's output that says what is wrong, without any address.

    >>> reason("[INFO] x\\n[ERROR] Could not find artifact a:b:1 in central (https://example.com/m2)\\n[ERROR] y")
    'Could not find artifact a:b:1 in central'
    """
    lines = [line.removeprefix("[ERROR]").strip() for line in text.splitlines() if "[ERROR]" in line]
    said = next((line for line in lines if "Could not" in line or "was not found" in line), lines[0] if lines else text)
    return _ADDRESS.sub("", said).replace("()", "").strip()[:300]
