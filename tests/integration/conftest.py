"""What tests of DataFrames' lineage share, and those of lakes on several storages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables
from lineage_store.lake.address import LakeAddress
from tests.support.frame_tables import ORDERS, PLACES

if TYPE_CHECKING:
    from tests.support.object_storage import ObjectStorage
    from tests.support.servers import ServersOfTheRun
    from tests.support.storages import Azure, Hdfs


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ParquetTables:
    folder = tmp_path_factory.mktemp("tables")
    return ParquetTables.written(folder, {"orders": ORDERS, "places": PLACES})


@pytest.fixture
def spark(spark_context: SparkContext) -> SparkSession:
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


@pytest.fixture(scope="session")
def storage_s3() -> Iterator[ObjectStorage]:
    # It takes seconds to import what stands in for S3.
    from tests.support.object_storage import object_storage

    with object_storage("s3") as storage:
        yield storage


@pytest.fixture(scope="session")
def storage_gs() -> Iterator[ObjectStorage]:
    from tests.support.object_storage import object_storage

    with object_storage("gs") as storage:
        yield storage


@pytest.fixture(scope="session")
def storage_az(servers_of_the_run: ServersOfTheRun) -> Azure:
    from tests.support.storages import Azure

    return Azure(servers_of_the_run)


@pytest.fixture(scope="session")
def storage_hdfs(servers_of_the_run: ServersOfTheRun) -> Hdfs:
    from tests.support.storages import Hdfs

    return Hdfs(servers_of_the_run)


@pytest.fixture
def lake_on(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], LakeAddress]:
    """Where a new lake may be, by the scheme of its storage: `s3`, `gs`, `az` or `hdfs`. The settings are in the environment."""

    def place(scheme: str) -> LakeAddress:
        storage = request.getfixturevalue(f"storage_{scheme}")
        for name, value in storage.settings.items():
            monkeypatch.setenv(name, value)
        return LakeAddress(storage.folder())

    return place
