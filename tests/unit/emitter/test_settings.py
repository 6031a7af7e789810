"""Settings: one place, one order of precedence, one table."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lineage_emitter.dispatch.target_settings import target_of
from lineage_emitter.errors import SettingsError
from lineage_emitter.settings import SPARK_PREFIX, Settings, read_settings, setting_names

pytestmark = pytest.mark.unit

TABLE = Path(__file__).resolve().parents[3] / "docs/reference/settings.md"

OTHER_VALUES = {
    "enabled": ("false", False),
    # Asks for a Kafka, so it is not changed alone.
    "dispatcher": ("spool", "spool"),
    "store": ("sqlite:////a/b.db", "sqlite:////a/b.db"),
    "spool": ("/a/spool", "/a/spool"),
    "on_error": ("fail", "fail"),
    "unsupported": ("continue", "continue"),
    "memory_mb": ("7", 7),
    "heartbeat_s": ("0.5", 0.5),
    "link": ("no", False),
    "checksums": ("no", False),
    "quarantine": ("7", 7),
    "repair": ("a:b", "a:b"),
    "watch": ("true", True),
    "watch_frames": ("true", True),
    "detailed": ("true", True),
    "values": ("no", False),
    "value_encoder": ("json", "json"),
    "value_length": ("12", 12),
    "redact": ("a:b", "a:b"),
    "granularity": ("key", "key"),
    "rules": ("rules.toml", "rules.toml"),
    "secret_words": ("pin, code", "pin, code"),
    "rows_mb": ("0", 0),
    "rows_folder": ("/a/rows", "/a/rows"),
    "kafka": ("there:9092", "there:9092"),
    "kafka_timeout_s": ("2.5", 2.5),
    "kafka_retry_s": ("0.0", 0.0),
    "topic_prefix": ("x.", "x."),
    "kafka_security_protocol": ("SASL_SSL", "SASL_SSL"),
    "kafka_sasl_mechanism": ("PLAIN", "PLAIN"),
    "kafka_sasl_username": ("ann", "ann"),
    "kafka_sasl_password": ("s", SecretStr("s")),
    "kafka_sasl_password_file": ("/a", "/a"),
    "kafka_ssl_ca_file": ("/a", "/a"),
    "kafka_ssl_certificate_file": ("/a", "/a"),
    "kafka_ssl_key_file": ("/a", "/a"),
    "kafka_ssl_key_password": ("s", SecretStr("s")),
    "kafka_ssl_key_password_file": ("/a", "/a"),
    "openlineage_url": ("http://there:5000", "http://there:5000"),
    "openlineage_file": ("/a", "/a"),
    "openlineage_namespace": ("team", "team"),
    "openlineage_link": ("https://a/", "https://a/"),
    "openlineage_producer": ("https://a", "https://a"),
    "openlineage_schemas": ("https://a", "https://a"),
    "openlineage_lineage_facet": ("true", True),
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
        (
            {},
            {"stroe": "x"},
            "stroe is not a setting; known: enabled, dispatcher, store, spool, on_error",
        ),
        ({"spark.lineage.on.error": "explode"}, {}, "on_error: .*'continue' or 'fail'"),
        ({"spark.lineage.enabled": "perhaps"}, {}, "enabled: .*bool"),
        ({"spark.lineage.memory.mb": "0"}, {}, "memory_mb: .*greater than or equal to 1"),
        ({}, {"heartbeat_s": -1}, "heartbeat_s: .*greater than 0"),
        ({}, {"store": "neo4j://there"}, "neo4j://there.*sqlite:///PATH"),
        ({}, {"store": "sqlite:///"}, "sqlite:///PATH"),
        ({}, {"store": "neo4j://there", "spool": "/a"}, "neo4j://there.*sqlite:///PATH"),
        ({}, {"dispatcher": "kafka"}, "LINEAGE_KAFKA"),
        ({}, {"dispatcher": "pigeon"}, "dispatcher: .*'spool' or 'kafka'"),
        ({}, {"topic_prefix": "a b"}, "topic_prefix: "),
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


def test_with_kafka_the_store_is_whatever_the_writer_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kafka = {"dispatcher": "kafka", "kafka": "there:9092"}
    settings = read_settings({}, store="neo4j://there", **kafka)
    assert settings.spool_folder() == tmp_path / ".lineage" / "spool"
    assert not settings.links_in_driver
    assert read_settings({}, spool="/s", **kafka).spool_folder() == Path("/s")
    assert read_settings({}, store="sqlite:////x/y.db", **kafka).spool_folder() == Path("/x/spool")


def test_no_secret_is_shown() -> None:
    settings = read_settings({"spark.lineage.kafka.sasl.password": "hush"})
    assert settings.kafka_secret("kafka_sasl_password") == "hush"
    assert "hush" not in repr(settings)
    target = target_of(settings)
    assert target.client_config()["sasl.password"] == "hush"
    assert "hush" not in repr(target)


def test_a_secret_in_a_file_travels_as_its_path(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hush\n", encoding="utf-8")
    settings = read_settings({}, kafka_sasl_password_file=str(secret))
    target = target_of(settings)
    assert b"hush" not in pickle.dumps(target)
    assert target.client_config()["sasl.password"] == "hush"
    assert settings.librdkafka_config()["sasl.password"] == "hush"


def rows() -> list[str]:
    """The table's rows as the settings themselves say them."""
    found = []
    for name in setting_names():
        field = Settings.model_fields[name]
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
    # Those of the store and of the services have sections of their own.
    lines = TABLE.read_text(encoding="utf-8").split("\n## ")[0].splitlines()
    assert [line for line in lines if line.startswith("| `")] == rows()
