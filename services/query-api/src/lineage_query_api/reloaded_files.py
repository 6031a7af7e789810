"""Files of settings that are read again when they have changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from lineage_core.environment.toml import tomllib
from lineage_query_api.errors import SettingsError

Content = TypeVar("Content")
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
        messages = "; ".join(
            f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in wrong
        )
        raise SettingsError(f"{setting}: {path}: {messages}") from None


class ReloadedFile(Generic[Content]):
    """The parsed content of a file, reloaded when it changes: rights change without a restart.

    Raises:
        SettingsError: the file can't be read or used.
    """

    def __init__(self, setting: str, path: Path, read: Callable[[Path], Content]) -> None:
        self._setting = setting
        self._path = path
        self._read = read
        self._read_state, self._content = self._file_state(), read(path)

    def get(self) -> Content:
        """The current content.

        Raises:
            SettingsError: it can't be read or used any more.
        """
        state = self._file_state()
        if state != self._read_state:
            # Found first: after a failure it is tried again.
            self._content = self._read(self._path)
            self._read_state = state
        return self._content

    def _file_state(self) -> tuple[int, int]:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise SettingsError(f"{self._setting}: {error}") from error
        return stat.st_mtime_ns, stat.st_size
