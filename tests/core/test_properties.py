"""Table properties: ours by name, the user's own with a dot, the engines' refused."""

import pytest

from lakebed.core.errors import OptionError
from lakebed.core.properties import (
    COLUMN_MAPPING_MODE,
    MAX_COLUMN_ID,
    PROPERTIES,
    SYSTEM_CONFIGURATION,
    TYPE_WIDENING,
    configuration_key,
    refuse_keyed,
    to_configuration,
    to_properties,
    value_of,
)

MANAGED = [*SYSTEM_CONFIGURATION, COLUMN_MAPPING_MODE, MAX_COLUMN_ID, TYPE_WIDENING]


@pytest.mark.parametrize(
    ("name", "value", "key", "text"),
    [
        ("checkpoint-interval", 50, "delta.checkpointInterval", "50"),
        ("checkpoint-interval", "007", "delta.checkpointInterval", "7"),
        ("append-only", True, "delta.appendOnly", "true"),
        ("append-only", "FALSE", "delta.appendOnly", "false"),
        ("statistics-columns", -1, "delta.dataSkippingNumIndexedCols", "-1"),
        ("statistics-columns", "0", "delta.dataSkippingNumIndexedCols", "0"),
        ("delta.appendOnly", "true", "delta.appendOnly", "true"),
        ("team.owner", "shop", "team.owner", "shop"),
        ("team.size", 3, "team.size", "3"),
        ("team.open", True, "team.open", "true"),
    ],
)
def test_properties_become_configuration(name, value, key, text) -> None:
    assert to_configuration({name: value}) == {key: text}
    assert configuration_key(name) == key


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("checkpoint-interval", 0, "at least 1"),
        ("checkpoint-interval", "-5", "at least 1"),
        ("checkpoint-interval", "many", "at least 1"),
        ("checkpoint-interval", 1.5, "at least 1"),
        ("append-only", "yes", "true or false"),
        ("append-only", 1, "true or false"),
        ("statistics-columns", -2, "-1 for all"),
        ("statistics-columns", "all", "-1 for all"),
        ("delta.appendOnly", "perhaps", "true or false"),
    ],
)
def test_wrong_values_are_refused_with_what_was_expected(name, value, expected) -> None:
    with pytest.raises(OptionError, match="wrong value") as caught:
        to_configuration({name: value})
    assert expected in caught.value.expected
    assert str(value) in caught.value.found


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(OptionError, match="did you mean 'append-only'") as caught:
        to_configuration({"append_only": True})
    assert "checkpoint-interval" in caught.value.expected


def test_a_name_without_a_dot_must_be_known() -> None:
    with pytest.raises(OptionError, match="need a dot"):
        to_configuration({"owner": "shop"})
    with pytest.raises(OptionError, match="need a dot"):
        configuration_key("owner")


@pytest.mark.parametrize("name", MANAGED)
def test_what_lakebed_manages_cannot_be_set_removed_or_seen(name) -> None:
    with pytest.raises(OptionError, match="managed by Lakebed"):
        to_configuration({name: "true"})
    with pytest.raises(OptionError, match="managed by Lakebed"):
        configuration_key(name)
    assert to_properties({name: "true"}) == {}


@pytest.mark.parametrize("name", ["delta.later", "lakebed.later"])
def test_other_names_of_the_engines_cannot_be_set_or_removed(name) -> None:
    with pytest.raises(OptionError, match="is not known"):
        to_configuration({name: "x"})
    with pytest.raises(OptionError, match="is not known"):
        configuration_key(name)


def test_nothing_is_set_when_one_property_is_wrong() -> None:
    with pytest.raises(OptionError):
        to_configuration({"team.owner": "shop", "append-only": "maybe"})


def test_configuration_reads_back_as_properties() -> None:
    given = {"append-only": "true", "checkpoint-interval": "50", "team.owner": "shop"}
    assert to_properties({**SYSTEM_CONFIGURATION, **to_configuration(given)}) == given
    assert to_properties({"delta.logRetentionDuration": "interval 7 days"}) == {
        "delta.logRetentionDuration": "interval 7 days"
    }


@pytest.mark.parametrize("name", list(PROPERTIES))
def test_every_property_is_described_and_its_default_is_a_value(name) -> None:
    known = PROPERTIES[name]
    assert known.description
    assert known.parse(known.default) == known.default
    assert value_of(name, {}) == known.default
    assert value_of(name, {known.key: "x"}) == "x"


def test_only_key_tables_have_what_is_about_keys() -> None:
    for known in PROPERTIES.values():
        general = known.name.startswith(("compaction", "retain"))
        assert known.keyed is (known.key.startswith("lakebed.") and not general)
        if known.keyed:
            with pytest.raises(OptionError, match=f"table t has no primary key; found property '{known.name}'"):
                refuse_keyed("t", {known.key: known.default})
        else:
            refuse_keyed("t", {known.key: known.default, "team.fields": "x"})
