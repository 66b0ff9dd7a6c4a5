"""Reads ``lakebed.toml`` and ``lakebed.properties`` into settings that know their line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakebed.core.errors import OptionError

TOML = "lakebed.toml"
PROPERTIES = "lakebed.properties"
_PREFIX = "lakebed."


@dataclass(frozen=True, repr=False)
class Setting:
    """A name and a value, where they were found, and the directory that relative paths start at.

    It has no ``repr`` because the value may be secret.
    """

    name: str
    value: Any
    source: str
    directory: Path

    def text(self) -> str:
        """The value, which must be text. Raises ``OptionError``."""
        if isinstance(self.value, str) and self.value.strip():
            return self.value.strip()
        raise OptionError(
            f"{self.source}: '{self.name}' has a wrong value",
            expected="text",
            found="empty text" if isinstance(self.value, str) else type(self.value).__name__,
        )


def find_file(home: Path | None, working: Path) -> Path | None:
    """The settings file of ``home``, else of the working directory; None if there is none."""
    if home is not None and not home.is_dir():
        raise OptionError("LAKEBED_HOME is not a directory", found=str(home))
    for directory in (home, working):
        if directory is None:
            continue
        found = [directory / name for name in (TOML, PROPERTIES) if (directory / name).is_file()]
        if len(found) == 2:
            raise OptionError(f"{directory}: both {TOML} and {PROPERTIES} are there", fix="keep one of them")
        if found:
            return found[0]
    return None


def read_file(path: Path) -> list[Setting]:
    """The settings of a file; names are without the ``lakebed.`` prefix. Raises ``OptionError``."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise OptionError(f"{path}: cannot read the settings", found=str(cause)) from cause
    parse = _read_toml if path.name == TOML else _read_properties
    return list(parse(path, text))


def _read_toml(path: Path, text: str) -> Iterator[Setting]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise OptionError(f"{path}: not valid TOML", found=str(cause)) from cause
    lines = _toml_lines(text)
    for name, value in _flat(content):
        line = lines.get(name)
        source = f"{path}, line {line}" if line else str(path)
        yield Setting(name.removeprefix(_PREFIX), value, source, path.parent)


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _toml_lines(text: str) -> dict[str, int]:
    """The line of each key, as far as it can be told without a parser; it is for messages only."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            section = _unquoted(header[1]) + "."
        elif entry := re.match(r"\s*([\w.\-\"' ]+?)\s*=", line):
            lines.setdefault(section + _unquoted(entry[1]), number)
    return lines


def _unquoted(name: str) -> str:
    return re.sub(r"[\"'\s]", "", name)


def _read_properties(path: Path, text: str) -> Iterator[Setting]:
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, equals, value = (part.strip() for part in stripped.partition("="))
        if not equals or not name:
            raise OptionError(f"{path}, line {number}: not a setting", expected="key=value")
        if name in seen:
            raise OptionError(f"{path}, line {number}: '{name}' is set again", found=f"line {seen[name]}")
        seen[name] = number
        yield Setting(name.removeprefix(_PREFIX), value, f"{path}, line {number}", path.parent)
