"""The tree of errors, and what their messages say."""

import copy
import inspect
import pickle
import re

import pytest

import lakebed
from lakebed.core import errors
from lakebed.core.errors import (
    CommitError,
    CommitUnknownError,
    ConflictError,
    CorruptFileError,
    DataError,
    InputError,
    LakebedError,
    NotFoundError,
    OptionError,
)

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, LakebedError)]
every_error = pytest.mark.parametrize("kind", ALL)


@every_error
def test_every_error_is_exported_documented_and_ends_in_error(kind) -> None:
    assert getattr(lakebed, kind.__name__) is kind
    assert kind.__name__ in lakebed.__all__
    assert kind.__name__.endswith("Error")
    assert kind.__doc__


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn: dict[str, str] = {}
    open_parents: list[tuple[int, str]] = []
    for line in errors.__doc__.split("\n"):
        found = re.match(r"^    ([│├└─ ]*)(\w+Error)\b", line)
        if not found:
            continue
        depth = len(found[1])
        open_parents = [(d, n) for d, n in open_parents if d < depth]
        drawn[found[2]] = open_parents[-1][1] if open_parents else "Exception"
        open_parents.append((depth, found[2]))
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in ALL}


def test_a_message_has_all_its_parts_in_order() -> None:
    error = LakebedError("table t: no column", expected="a", found="b", fix="use a")
    assert str(error) == "table t: no column; expected a; found b; fix: use a"
    assert (error.what, error.expected, error.found, error.fix) == ("table t: no column", "a", "b", "use a")


@pytest.mark.parametrize(
    ("parts", "message"),
    [({}, "w"), ({"expected": "e"}, "w; expected e"), ({"found": ""}, "w; found "), ({"fix": "f"}, "w; fix: f")],
)
def test_parts_that_are_not_given_are_left_out(parts, message) -> None:
    assert str(LakebedError("w", **parts)) == message


def test_input_errors_are_value_errors_and_missing_things_lookup_errors() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(OptionError, ValueError)
    assert issubclass(NotFoundError, LookupError)
    assert not issubclass(NotFoundError, ValueError)


def test_a_conflict_and_an_unknown_outcome_are_told_apart() -> None:
    assert issubclass(ConflictError, CommitError)
    assert issubclass(CommitUnknownError, CommitError)
    assert not issubclass(CommitUnknownError, ConflictError)


@every_error
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_every_error_survives_a_process_boundary(kind, duplicate) -> None:
    """Spark tasks send theirs to the driver by pickle."""
    error = kind("w", ("p: 1", "p 2"), fix="f") if kind is DataError else kind("w", expected="e", found="f", fix="x")
    twin = duplicate(error)
    assert type(twin) is kind
    assert str(twin) == str(error)
    assert twin.__dict__ == error.__dict__


def test_data_errors_list_every_problem() -> None:
    error = DataError("table t: rows do not fit", ("a is null", "b is text"), fix="cast b")
    assert str(error) == "table t: rows do not fit:\n  - a is null\n  - b is text\nfix: cast b"
    assert error.problems == ("a is null", "b is text")
    assert str(DataError("table t: rows do not fit")) == "table t: rows do not fit"


def test_a_problem_with_lines_like_the_list_survives_pickle() -> None:
    error = DataError("odd:\n  - title", ("x",))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_translated_errors_keep_their_cause() -> None:
    with pytest.raises(CorruptFileError) as caught:
        try:
            raise KeyError("x")
        except KeyError as error:
            raise CorruptFileError("f") from error
    assert isinstance(caught.value.__cause__, KeyError)
