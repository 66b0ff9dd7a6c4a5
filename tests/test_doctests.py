"""Every example in a docstring runs, and every public method has one."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import lakebed

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _cannot_be_listed(name: str) -> None:
    """A package that fails to import is walked no further; its own test shows why."""


MODULES = ["lakebed", *(m.name for m in pkgutil.walk_packages(lakebed.__path__, "lakebed.", _cannot_be_listed))]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    if name.startswith("lakebed.spark"):
        pytest.importorskip("pyspark")
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    report: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(example, out=report.append)
    assert not runner.summarize(verbose=False).failed, "".join(report)


def _public_callables() -> Iterator[tuple[str, object]]:
    """The exported functions, and the methods of exported classes where Lakebed defines them."""
    seen: set[str] = set()
    for exported in lakebed.__all__:
        thing = getattr(lakebed, exported)
        if inspect.isfunction(thing):
            yield exported, thing
        elif inspect.isclass(thing) and not issubclass(thing, BaseException):
            for owner in thing.__mro__:
                if not owner.__module__.startswith("lakebed"):
                    continue
                for name, member in vars(owner).items():
                    method = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                    label = f"{owner.__name__}.{name}"
                    if inspect.isfunction(method) and not name.startswith("_") and label not in seen:
                        seen.add(label)
                        yield label, method


PUBLIC = dict(_public_callables())


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_name_has_an_example(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert ">>>" in text, f"{name} needs a docstring with an example"
