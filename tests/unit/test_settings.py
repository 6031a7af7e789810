"""Settings: one place, one order of precedence, one table."""

from pathlib import Path
from typing import Any

import pytest

from lineage_emitter.errors import SettingsError
from lineage_emitter.settings import SPARK_PREFIX, Settings, read_settings

pytestmark = pytest.mark.unit

TABLE = Path(__file__).resolve().parents[2] / "docs/reference/settings.md"

OTHER_VALUES = {
    "enabled": ("false", False),
    "store": ("sqlite:////a/b.db", "sqlite:////a/b.db"),
    "spool": ("/a/spool", "/a/spool"),
    "on_error": ("fail", "fail"),
    "unsupported": ("continue", "continue"),
    "memory_mb": ("7", 7),
    "heartbeat_s": ("0.5", 0.5),
    "link": ("no", False),
}


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"LINEAGE_{name.upper()}", raising=False)


def spark_key(field: str) -> str:
    return SPARK_PREFIX + field.replace("_", ".")


def test_every_setting_is_tested() -> None:
    assert OTHER_VALUES.keys() == Settings.model_fields.keys()


@pytest.mark.parametrize("field", OTHER_VALUES)
def test_an_argument_beats_spark_beats_the_environment_beats_the_default(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, value = OTHER_VALUES[field]
    default = str(getattr(Settings(), field))

    def found(conf: dict[str, str], **arguments: Any) -> Any:
        return getattr(read_settings(conf, **arguments), field)

    assert str(found({"spark.app.name": "x"})) == default
    monkeypatch.setenv(f"LINEAGE_{field.upper()}", text)
    assert found({}) == value
    assert str(found({spark_key(field): default})) == default
    assert found({spark_key(field): default}, **{field: value}) == value
    monkeypatch.setenv(f"LINEAGE_{field.upper()}", default)
    assert found({spark_key(field): text}) == value
    assert str(found({spark_key(field): text}, **{field: default})) == default


def test_a_spark_key_may_keep_its_underscore() -> None:
    assert read_settings({"spark.lineage.on_error": "fail"}).on_error == "fail"


def test_an_argument_of_none_says_nothing() -> None:
    assert read_settings({"spark.lineage.on.error": "fail"}, on_error=None).on_error == "fail"


@pytest.mark.parametrize(
    ("conf", "arguments", "message"),
    [
        ({"spark.lineage.stroe": "x"}, {}, r"spark\.lineage\.stroe is not a setting; known: .*"),
        ({"spark.lineage.": "x"}, {}, r"spark\.lineage\. is not a setting"),
        ({}, {"stroe": "x"}, "stroe is not a setting; known: enabled, store, spool, on_error"),
        ({"spark.lineage.on.error": "explode"}, {}, "on_error: .*'continue' or 'fail'"),
        ({"spark.lineage.enabled": "perhaps"}, {}, "enabled: .*bool"),
        ({"spark.lineage.memory.mb": "0"}, {}, "memory_mb: .*greater than or equal to 1"),
        ({}, {"heartbeat_s": -1}, "heartbeat_s: .*greater than 0"),
        ({}, {"store": "neo4j://there"}, "neo4j://there.*sqlite:///PATH"),
        ({}, {"store": "sqlite:///"}, "sqlite:///PATH"),
        ({}, {"store": "neo4j://there", "spool": "/a"}, "neo4j://there.*sqlite:///PATH"),
    ],
)
def test_what_can_not_be_used_is_refused(
    conf: dict[str, str], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        read_settings(conf, **arguments)


def test_a_value_of_the_environment_that_can_not_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LINEAGE_ON_ERROR", "explode")
    with pytest.raises(SettingsError, match="on_error"):
        read_settings()


def test_capture_that_is_off_asks_for_no_store() -> None:
    assert not read_settings({}, enabled=False, store="neo4j://there").enabled


def test_folders_are_absolute_and_the_spool_is_beside_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings = read_settings()
    assert settings.store_file() == tmp_path / ".lineage" / "lineage.db"
    assert settings.spool_folder() == tmp_path / ".lineage" / "spool"
    assert read_settings(store="sqlite:////x/y.db").spool_folder() == Path("/x/spool")
    assert read_settings(store="sqlite:///~/y.db").store_file() == tmp_path / "home" / "y.db"
    assert read_settings(spool="file:///s").spool_folder() == Path("/s")
    assert read_settings(spool="s").spool_folder() == tmp_path / "s"


def rows() -> list[str]:
    """The table's rows as the settings themselves say them."""
    found = []
    for name, field in Settings.model_fields.items():
        default = field.default
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        cells = (
            f"`{spark_key(name)}`",
            f"`LINEAGE_{name.upper()}`",
            f"`{name}`",
            f"`{shown}`" if shown else "",
            field.description or "",
        )
        found.append("| " + " | ".join(cells) + " |")
    return found


def test_the_table_of_the_documentation_is_the_settings() -> None:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("| `")] == rows()
