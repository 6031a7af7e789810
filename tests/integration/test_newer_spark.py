"""A Spark that no test has run in: whether its plans are what recipes take them for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from lineage_emitter import LineageContext, spark_versions
from lineage_emitter.dataframes import catalyst_check
from lineage_emitter.errors import SettingsError
from lineage_emitter.session import session
from tests.support.versions import IN_35

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(IN_35, reason="what is looked for is of Spark 4"),
]


@pytest.fixture
def untested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This Spark is newer than all that tests run in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spark_versions, "SUPPORTED", ("3.4", "3.5"))


def test_plans_of_a_tested_version_are_as_they_are_known(spark_context: SparkContext) -> None:
    assert catalyst_check.changed_classes() == []


def test_a_class_of_other_fields_is_found(
    spark_context: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = catalyst_check.known_fields()
    name = "org.apache.spark.sql.catalyst.plans.logical.Filter"
    assert known[name] == ["condition child"]
    monkeypatch.setattr(
        catalyst_check,
        "known_fields",
        lambda: {**known, name: ["condition child more"], "org.example.Gone": ["child"]},
    )
    assert catalyst_check.changed_classes() == ["Filter"]


@pytest.mark.usefixtures("untested")
def test_a_newer_one_is_tried_with_a_warning(
    spark_context: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not by handlers: services that other tests start in this process set up logs of their own.
    warnings: list[str] = []
    monkeypatch.setattr(session.logger, "warning", lambda text, *_: warnings.append(text))
    with LineageContext(spark_context) as lc:
        assert lc.parallelize([1, 2], 2).collect() == [1, 2]
    assert [text for text in warnings if "was never tested" in text] == [
        spark_versions.untested_warning(spark_context.version)
    ]


@pytest.mark.usefixtures("untested")
def test_a_newer_one_whose_plans_differ_is_refused(
    spark_context: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalyst_check, "changed_classes", lambda: ["Filter", "Join"])
    with pytest.raises(SettingsError, match=r"is not supported: .* differ: Filter, Join"):
        LineageContext(spark_context)
