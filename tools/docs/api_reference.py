"""The API reference: every exported name, its signature and its docstring, as Markdown."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator

import lakebed

PAGES = {
    "api.md": ("Functions and objects", ("connect", "recover", "read_delta", "Warehouse", "Table", "TableView")),
    "api-results.md": ("What calls return", None),
}
"""File name -> title and names; ``None`` stands for the exported names that no other page has, errors left out."""


def pages() -> dict[str, str]:
    """The Markdown of each page, by file name."""
    taken = {name for _, names in PAGES.values() for name in names or ()}
    rest = tuple(name for name in lakebed.__all__ if name not in taken and not _is_failure(name))
    return {
        file: "\n".join([f"# {title}", "", *_page(rest if names is None else names)])
        for file, (title, names) in PAGES.items()
    }


def _is_failure(name: str) -> bool:
    thing = getattr(lakebed, name)
    return inspect.isclass(thing) and issubclass(thing, BaseException)


def _page(names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        thing = getattr(lakebed, name)
        yield f"## {name}"
        yield ""
        if inspect.isclass(thing):
            yield from _of_class(name, thing)
        else:
            yield from _of_callable(name, thing)


def _of_class(name: str, kind: type) -> Iterator[str]:
    yield markdown(inspect.getdoc(kind) or "")
    yield ""
    if dataclasses.is_dataclass(kind):
        yield from _of_fields(kind)
    for member in public_members(kind):
        yield f"### {name}.{member}"
        yield ""
        found = inspect.getattr_static(kind, member)
        if isinstance(found, property):
            yield "*property*"
            yield ""
            yield markdown(inspect.getdoc(found) or "")
            yield ""
        else:
            yield from _of_callable(member, getattr(kind, member))


def public_members(kind: type) -> list[str]:
    """The public methods and properties that Lakebed defines, those of the class itself first."""
    found: dict[str, None] = {}
    for owner in kind.__mro__:
        if owner.__module__.startswith("lakebed"):
            for name, member in vars(owner).items():
                if not name.startswith("_") and isinstance(
                    member, property | staticmethod | classmethod | type(_of_class)
                ):
                    found.setdefault(name)
    return list(found)


def _of_fields(kind: type) -> Iterator[str]:
    notes = _field_notes(kind)
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    for field in dataclasses.fields(kind):
        if not field.name.startswith("_"):
            kind_text = str(field.type).replace("|", "\\|")
            yield f"| `{field.name}` | `{kind_text}` | {markdown(notes.get(field.name, ''))} |"
    yield ""


def _field_notes(kind: type) -> dict[str, str]:
    """The texts below the fields of a dataclass, which Python itself does not keep."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    notes: dict[str, str] = {}
    name = ""
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            notes[name] = " ".join(str(node.value.value).split())
            name = ""
        else:
            name = ""
    return notes


def _of_callable(name: str, thing: object) -> Iterator[str]:
    yield "```python"
    yield signature(name, thing)
    yield "```"
    yield ""
    yield markdown(inspect.getdoc(thing) or "")
    yield ""


_QUOTED = re.compile(r"(: |-> )'([^']*)'")


def signature(name: str, thing: object) -> str:
    """The call, without ``self``, an argument on each line if it is long; types are shown without quotes."""
    return _QUOTED.sub(r"\1\2", _signature(name, thing))


def _signature(name: str, thing: object) -> str:
    made = inspect.signature(thing)  # type: ignore[arg-type]
    parameters = [p for p in made.parameters.values() if p.name not in ("self", "cls")]
    made = made.replace(parameters=parameters)
    line = f"{name}{made}"
    if len(line) <= 100:
        return line
    parts: list[str] = []
    starred = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        parts.append(str(parameter))
    returns = line[len(f"{name}{made.replace(return_annotation=inspect.Signature.empty)}") :]
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> )\S.*\n?|^\.\.\. ?.*\n?|^[ \t]+\S.*\n?)*)+", re.MULTILINE)


def markdown(docstring: str) -> str:
    """A docstring's text: double backticks become single ones, examples become code."""
    pieces: list[str] = []
    at = 0
    for found in _EXAMPLE.finditer(docstring):
        pieces.append(_prose(docstring[at : found.start()]))
        pieces.append(f"```pycon\n{found[0].rstrip()}\n```\n")
        at = found.end()
    pieces.append(_prose(docstring[at:]))
    return "".join(pieces).strip()


def _prose(text: str) -> str:
    return text.replace("``", "`")
