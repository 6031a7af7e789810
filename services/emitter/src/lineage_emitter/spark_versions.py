"""The versions of Spark that are captured: those that tests run in, and a newer one that has all that capture leans on.

Raises:
    SettingsError: on import, where this PySpark is none of them: capture leans on internals.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pyspark

from lineage_emitter.errors import SettingsError

SUPPORTED = ("3.5", "4.0", "4.1", "4.2", "4.3")
"""Versions that tests run in, the newest last."""

PARTS = {
    "pyspark": "RDD SparkConf SparkContext StorageLevel TaskContext cloudpickle inheritable_thread_target java_gateway traceback_utils",
    "pyspark.accumulators": "Accumulator AccumulatorParam",
    "pyspark.daemon": "manager worker",
    "pyspark.errors": "PySparkException PySparkRuntimeError",
    "pyspark.java_gateway": "Popen launch_gateway",
    "pyspark.rdd": "Partitioner PipelinedRDD PythonEvalType RDDBarrier _load_from_socket portable_hash",
    "pyspark.resultiterable": "ResultIterable",
    "pyspark.serializers": "AutoBatchedSerializer BatchedSerializer CPickleSerializer FramedSerializer NoOpSerializer "
    "Serializer SpecialLengths UTF8Deserializer pack_long write_int",
    "pyspark.shuffle": "Aggregator ExternalGroupBy ExternalMerger ExternalSorter get_used_memory",
    "pyspark.sql": "Column DataFrame Row SparkSession functions types",
    "pyspark.sql.catalog": "Catalog",
    "pyspark.sql.classic.dataframe": "DataFrame.collect DataFrame.count DataFrame.show DataFrame.toPandas "
    "DataFrame.toArrow DataFrame.take DataFrame.first DataFrame.head DataFrame.tail DataFrame.foreach "
    "DataFrame.foreachPartition DataFrame.toLocalIterator DataFrame.isEmpty DataFrame.toJSON DataFrame.checkpoint "
    "DataFrame.localCheckpoint DataFrame.approxQuantile DataFrame.corr DataFrame.cov DataFrame.crosstab "
    "DataFrame.freqItems DataFrame.rdd",
    "pyspark.sql.merge": "MergeIntoWriter.merge",
    "pyspark.sql.pandas.types": "from_arrow_schema to_arrow_schema",
    "pyspark.sql.readwriter": "DataFrameReader DataFrameWriter.save DataFrameWriter.saveAsTable "
    "DataFrameWriter.insertInto DataFrameWriter.jdbc DataFrameWriter.format DataFrameWriter.option "
    "DataFrameWriter.options DataFrameWriterV2.create DataFrameWriterV2.replace DataFrameWriterV2.createOrReplace "
    "DataFrameWriterV2.append DataFrameWriterV2.overwrite DataFrameWriterV2.overwritePartitions DataFrameWriterV2.using",
    "pyspark.sql.session": "SparkSession.sql SparkSession._create_dataframe",
    "pyspark.sql.streaming.query": "StreamingQuery",
    "pyspark.sql.streaming.readwriter": "DataStreamWriter",
    "pyspark.sql.types": "BooleanType DataType Row StringType StructField StructType TimestampType _create_converter "
    "_parse_datatype_string",
    "pyspark.streaming": "StreamingContext",
    "pyspark.streaming.dstream": "DStream TransformedDStream",
    "pyspark.streaming.util": "TransformFunction",
    "pyspark.traceback_utils": "CallSite SCCallSiteSync",
    "pyspark.util": "fail_on_stopiteration",
    "pyspark.context": "SparkContext._do_init SparkContext.runJob SparkContext.union SparkContext.textFile "
    "SparkContext.wholeTextFiles SparkContext.binaryFiles SparkContext.binaryRecords SparkContext.sequenceFile "
    "SparkContext.pickleFile SparkContext.newAPIHadoopFile SparkContext.newAPIHadoopRDD SparkContext.hadoopFile "
    "SparkContext.hadoopRDD SparkContext.parallelize SparkContext.range SparkContext.emptyRDD",
    "pyspark.worker": "handle_worker_exception read_command",
}
"""By module, what capture takes from PySpark 4."""


def check_version(version: str) -> None:
    """See that such a PySpark is captured.

    Raises:
        SettingsError: it is not, or lacks what capture leans on.
    """
    if _minor(version) in SUPPORTED:
        return
    refused = f"PySpark {version} is not supported: lineage is captured in {_listed()}"
    if not is_untested(version):
        raise SettingsError(refused)
    missing = list(missing_parts())
    if missing:
        raise SettingsError(f"{refused}, and this one has no {missing[0]}")


def is_untested(version: str) -> bool:
    """Whether a version is newer than all that tests run in."""
    return tuple(map(int, _minor(version).split("."))) > tuple(map(int, SUPPORTED[-1].split(".")))


def untested_warning(version: str) -> str:
    """What is reported about a version that is newer than all that tests run in."""
    return (
        f"PySpark {version} was never tested: lineage is captured in {_listed()}. "
        "All that capture leans on is there; check traces before you rely on them"
    )


def changed_refusal(version: str, changed: list[str]) -> str:
    """Why such a version is refused whose plans have classes of another form."""
    return (
        f"PySpark {version} is not supported: lineage is captured in {_listed()}, "
        f"and plans of this one differ: {', '.join(changed[:5])}"
    )


def missing_parts() -> Iterator[str]:
    """What capture takes from PySpark and this one has not."""
    for module, names in PARTS.items():
        for name in names.split():
            try:
                part: object = importlib.import_module(module)
                for step in name.split("."):
                    part = getattr(part, step)
            except (ImportError, AttributeError):
                yield f"{module}.{name}"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _listed() -> str:
    return f"{', '.join(SUPPORTED[:-1])} and {SUPPORTED[-1]}"


check_version(pyspark.__version__)
