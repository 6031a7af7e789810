"""Files of settings that are read again when they have changed."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from lineage_query_api.errors import SettingsError

Found = TypeVar("Found")
Model = TypeVar("Model", bound=BaseModel)


def read_toml(setting: str, path: Path, model: type[Model]) -> Model:
    """What a file of TOML holds that a setting names.

    Raises:
        SettingsError: the file can't be read or used.
    """
    try:
        return model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{setting}: {path}: {error}") from error
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong)
        raise SettingsError(f"{setting}: {path}: {said}") from None


class Reread(Generic[Found]):
    """What a file holds: rights are given and taken without a restart.

    Raises:
        SettingsError: the file can't be read or used.
    """

    def __init__(self, setting: str, path: Path, read: Callable[[Path], Found]) -> None:
        self._setting = setting
        self._path = path
        self._read = read
        self._read_at, self._found = self._stat(), read(path)

    def get(self) -> Found:
        """What it holds now.

        Raises:
            SettingsError: it can't be read or used any more.
        """
        stat = self._stat()
        if stat != self._read_at:
            # Found first: after a failure it is tried again.
            self._found = self._read(self._path)
            self._read_at = stat
        return self._found

    def _stat(self) -> tuple[int, int]:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise SettingsError(f"{self._setting}: {error}") from error
        return stat.st_mtime_ns, stat.st_size
