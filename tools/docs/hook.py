"""The hook of mkdocs: pages that are made from the code, and pages that lie in the root of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import api_reference
import command_reference
import statement_reference
import table_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
FROM_ROOT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file of ``docs/`` has."""
    for name, text in generated().items():
        files.append(File.generated(config, name, content=text))
    return files


def generated() -> dict[str, str]:
    """The Markdown of every page that is made here, by its path below ``docs/``."""
    found: dict[str, str] = {}
    for module in (api_reference, table_reference, statement_reference, command_reference):
        found |= {f"reference/{name}": text for name, text in module.pages().items()}
    for name in FROM_ROOT:
        text = (ROOT / name).read_text("utf-8")
        found[f"project/{name.lower()}"] = _moved(text)
    return found


def _moved(text: str) -> str:
    """The links of a page of the root, as they are seen from ``docs/project/``."""
    text = text.replace("](docs/", "](../")
    return re.sub(r"\]\(([A-Z]+\.md)", lambda found: f"]({found[1].lower()}", text)
