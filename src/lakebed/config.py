"""Where a connection's settings come from.

Arguments win over the environment (``LAKEBED_WAREHOUSE``, ``LAKEBED_METASTORE``, ``LAKEBED_<OPTION>``), the
environment wins over a file. The file is ``lakebed.toml`` or ``lakebed.properties`` in the directory that
``LAKEBED_HOME`` names, else in the working directory; relative paths in it start at its directory. Both files
in one directory are an error, because nobody could tell which one counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakebed.config_file import Setting, find_file, read_file
from lakebed.core.errors import OptionError
from lakebed.core.location import Location
from lakebed.core.metastore_url import default_metastore, masked_url, parse_metastore_url
from lakebed.core.options import Options, find, normalise

WAREHOUSE = "warehouse"
METASTORE = "metastore"
NO_WAREHOUSE = "no warehouse is given"
# Every spelling of the two settings that are not options.
_PLACES = {WAREHOUSE: WAREHOUSE, METASTORE: METASTORE, "metastore_url": METASTORE}
_PREFIX = "LAKEBED_"
_HOME = "LAKEBED_HOME"


@dataclass(frozen=True)
class Config:
    """What a connection needs: where the tables are, where the metadata is, and the options."""

    warehouse: Location
    metastore_url: str
    options: Options

    def __repr__(self) -> str:
        return (
            f"Config(warehouse={self.warehouse.uri!r}, metastore_url={masked_url(self.metastore_url)!r}, "
            f"options={self.options!r})"
        )


def load(
    warehouse: str | os.PathLike[str] | None = None,
    metastore: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> Config:
    """The settings of a connection from the arguments, the environment and a file.

    ``environ`` and ``directory`` stand for the process's environment and working directory. Raises
    ``OptionError`` for a setting that is unknown, wrong or missing; it says where the setting was found.

    >>> load("/lake", environ={}, directory="/").metastore_url
    'sqlite:////lake/.lakebed/metastore.db'
    >>> load("/lake", options={"batch_size": 100}, environ={}, directory="/").options
    Options(batch_size=100)
    """
    environ = os.environ if environ is None else environ
    here = Path(directory or os.getcwd())
    passed: dict[str, Any] = dict(options or {})
    arguments = [Setting(name, value, "argument", here) for name, value in passed.items()]
    places = {WAREHOUSE: None if warehouse is None else os.fspath(warehouse), METASTORE: metastore}
    arguments += [Setting(name, value, "argument", here) for name, value in places.items() if value is not None]
    home = environ.get(_HOME)
    file = find_file(Path(home) if home else None, here)
    layers = (read_file(file) if file else [], _environment(environ, here), arguments)
    return _resolve(_merged(layers))


def _environment(environ: Mapping[str, str], here: Path) -> list[Setting]:
    return [
        Setting(name[len(_PREFIX) :].lower(), value, f"environment variable {name}", here)
        for name, value in sorted(environ.items())
        if name.startswith(_PREFIX) and name != _HOME
    ]


def _merged(layers: Iterable[list[Setting]]) -> dict[str, Setting]:
    """The settings by their one name; a later layer wins. Raises for what no setting is called."""
    merged: dict[str, Setting] = {}
    for layer in layers:
        own: dict[str, Setting] = {}
        for setting in layer:
            key = _PLACES.get(normalise(setting.name)) or _option_field(setting)
            if key in own and own[key].value != setting.value:
                raise OptionError(
                    f"'{own[key].name}' ({own[key].source}) and '{setting.name}' ({setting.source}) "
                    "are the same setting with two values",
                    fix="keep one of them",
                )
            own[key] = setting
        merged |= own
    return merged


def _option_field(setting: Setting) -> str:
    try:
        return find(setting.name, extra=(WAREHOUSE, METASTORE)).field
    except OptionError as cause:
        raise OptionError(f"{setting.source}: {cause.what}", fix=cause.fix) from None


def _resolve(settings: dict[str, Setting]) -> Config:
    where, database = settings.pop(WAREHOUSE, None), settings.pop(METASTORE, None)
    options = Options()
    for field, setting in settings.items():
        try:
            options = options.updated({field: setting.value})
        except OptionError as cause:
            raise OptionError(f"{setting.source}: {cause.what}", expected=cause.expected, found=cause.found) from None
    if where is None:
        raise OptionError(
            NO_WAREHOUSE,
            fix="pass it, as in lakebed.connect('warehouse'), or set LAKEBED_WAREHOUSE, "
            'or write warehouse = "…" into lakebed.toml',
        )
    location = Location.parse(where.text(), default_fs=options.default_fs, base=str(where.directory))
    if database is None:
        return Config(location, default_metastore(location), options)
    return Config(location, parse_metastore_url(database.text(), database.directory), options)
