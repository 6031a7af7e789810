"""Makers of arguments: a value for every parameter of every public method, and reasons for those without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import RDD, SparkConf, SparkContext, StorageLevel
from pyspark.accumulators import Accumulator
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.same import probes
from tests.same.probes import Probe, Sets

HADOOP = "org.apache.hadoop"
INPUT_FOLDER = "mapreduce.input.fileinputformat.inputdir"
TEXT_INPUT = f"{HADOOP}.mapred.TextInputFormat"
NEW_TEXT_INPUT = f"{HADOOP}.mapreduce.lib.input.TextInputFormat"
TEXT_OUTPUT = f"{HADOOP}.mapred.TextOutputFormat"
NEW_TEXT_OUTPUT = f"{HADOOP}.mapreduce.lib.output.TextOutputFormat"
TEXT, LONG = f"{HADOOP}.io.Text", f"{HADOOP}.io.LongWritable"
FROM_WRITABLE = "org.apache.spark.api.python.WritableToJavaConverter"
TO_WRITABLE = "org.apache.spark.api.python.JavaToWritableConverter"


@dataclass
class Scene:
    """What a call is made of. ``shared``: files that all calls read. ``folder``: the call's own."""

    spark: SparkSession
    shared: Path
    folder: Path
    kinds: Accumulator[set[Any]] = field(init=False)
    calls: Accumulator[int] = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = self.sc.accumulator(set(), Sets())
        self.calls = self.sc.accumulator(0)

    @property
    def sc(self) -> SparkContext:
        """The one context."""
        return self.spark.sparkContext

    def probe(self, function: Callable[..., Any]) -> Probe:
        """A function of the user that is watched."""
        return Probe(function, self.kinds, self.calls)

    def numbers(self) -> RDD[Any]:
        """A source of numbers."""
        return self.sc.parallelize(range(12), 3)

    def pairs(self) -> RDD[Any]:
        """A source of pairs, some keys in several partitions."""
        return self.sc.parallelize([(f"k{n % 4}", n) for n in range(10)], 2)

    def texts(self) -> RDD[Any]:
        """Lines of a file."""
        return self.sc.textFile(str(self.shared / "lines.txt"), 2)

    def frame(self) -> DataFrame:
        """Rows of files."""
        return self.spark.read.parquet(str(self.shared / "rows.parquet"))

    def path(self, name: str) -> str:
        """A file or folder of the shared ones."""
        return str(self.shared / name)

    def unused(self, kind: str) -> str:
        """A name of a table or view that no other call has."""
        return f"{kind}_{self.folder.name.replace('-', '_')}"


Maker = Callable[[Scene], Any]


def _is(value: Any) -> Maker:
    return lambda scene: value


def _probed(function: Callable[..., Any]) -> Maker:
    return lambda scene: scene.probe(function)


RECEIVERS: dict[str, Maker] = {
    **dict.fromkeys(
        ("pipe", "saveAsTextFile"),
        lambda scene: scene.texts(),
    ),
    **dict.fromkeys(
        [
            "aggregateByKey",
            "cogroup",
            "collectAsMap",
            "combineByKey",
            "countByKey",
            "flatMapValues",
            "foldByKey",
            "fullOuterJoin",
            "groupByKey",
            "groupWith",
            "join",
            "keys",
            "leftOuterJoin",
            "lookup",
            "mapValues",
            "partitionBy",
            "reduceByKey",
            "reduceByKeyLocally",
            "repartitionAndSortWithinPartitions",
            "rightOuterJoin",
            "sampleByKey",
            "saveAsHadoopDataset",
            "saveAsHadoopFile",
            "saveAsNewAPIHadoopDataset",
            "saveAsNewAPIHadoopFile",
            "saveAsSequenceFile",
            "sortByKey",
            "subtractByKey",
            "values",
            "toDF",
        ],
        lambda scene: scene.pairs(),
    ),
}
"""What an RDD's method is called of, where it is not numbers."""

ARGUMENTS: dict[str, Maker] = {
    # RDD
    "zeroValue": _is(0),
    "seqOp": _probed(probes.plus),
    "combOp": _probed(probes.plus),
    "seqFunc": _probed(probes.plus),
    "combFunc": _probed(probes.plus),
    "op": _probed(probes.plus),
    "func": _probed(probes.plus),
    "numPartitions": _is(2),
    "partitionFunc": _probed(probes.number),
    "other": lambda scene: scene.numbers(),
    "others": lambda scene: (scene.pairs(), scene.pairs()),
    "blocking": _is(True),
    "shuffle": _is(True),
    "groupId": _is("a group"),
    "description": _is("what it is for"),
    "interruptOnCancel": _is(True),
    "createCombiner": _probed(probes.some),
    "mergeValue": _probed(probes.append),
    "mergeCombiners": _probed(probes.plus),
    "timeout": _is(60_000),
    "confidence": _is(0.5),
    "relativeSD": _is(0.2),
    "f": _probed(probes.twice),
    "preservesPartitioning": _is(True),
    "buckets": _is(3),
    "key": _probed(probes.group),
    "storageLevel": _is(StorageLevel.MEMORY_AND_DISK),
    "command": _is("cat"),
    "env": _is({"A": "1"}),
    "checkCode": _is(True),
    "weights": _is([1.0, 2.0]),
    "seed": _is(7),
    "withReplacement": _is(True),
    "fraction": _is(0.5),
    "fractions": _is({f"k{n}": 0.5 for n in range(4)}),
    "ascending": _is(False),
    "keyfunc": _probed(probes.number),
    "path": lambda scene: str(scene.folder / "out"),
    "compressionCodecClass": _is("org.apache.hadoop.io.compress.GzipCodec"),
    "batchSize": _is(3),
    "name": _is("a_name"),
    "num": _is(3),
    "schema": _is("a string, b bigint"),
    "sampleRatio": _is(1.0),
    "prefetchPartitions": _is(True),
    "depth": _is(3),
    "profile": lambda scene: ResourceProfileBuilder().require(TaskResourceRequests().cpus(1)).build,
    "keyConverter": _is(TO_WRITABLE),
    "valueConverter": _is(TO_WRITABLE),
    "keyClass": _is(TEXT),
    "valueClass": _is(f"{HADOOP}.io.IntWritable"),
    "outputFormatClass": _is(TEXT_OUTPUT),
    "conf": _is({}),
    "RDD.aggregateByKey.zeroValue": _is(0),
    "RDD.filter.f": _probed(probes.is_odd),
    "RDD.flatMap.f": _probed(probes.some),
    "RDD.flatMapValues.f": _probed(probes.some),
    "RDD.foreach.f": _probed(probes.nothing),
    "RDD.foreachPartition.f": _probed(probes.nothing),
    "RDD.groupBy.f": _probed(probes.group),
    "RDD.mapPartitions.f": _probed(probes.counted),
    "RDD.mapPartitionsWithIndex.f": _probed(probes.counted_in),
    "RDD.mapPartitionsWithSplit.f": _probed(probes.counted_in),
    "RDD.reduce.f": _probed(probes.plus),
    "RDD.treeReduce.f": _probed(probes.plus),
    "RDD.lookup.key": _is("k1"),
    "RDD.sortByKey.keyfunc": _probed(probes.key_of),
    "RDD.repartitionAndSortWithinPartitions.keyfunc": _probed(probes.key_of),
    "RDD.zip.other": lambda scene: scene.numbers().map(str),
    "RDD.saveAsNewAPIHadoopFile.outputFormatClass": _is(NEW_TEXT_OUTPUT),
    "RDD.saveAsHadoopDataset.conf": lambda scene: {
        "mapreduce.job.output.key.class": TEXT,
        "mapreduce.job.output.value.class": f"{HADOOP}.io.IntWritable",
        "mapreduce.output.fileoutputformat.outputdir": str(scene.folder / "out"),
        "mapred.output.format.class": TEXT_OUTPUT,
    },
    "RDD.saveAsNewAPIHadoopDataset.conf": lambda scene: {
        "mapreduce.job.output.key.class": TEXT,
        "mapreduce.job.output.value.class": f"{HADOOP}.io.IntWritable",
        "mapreduce.output.fileoutputformat.outputdir": str(scene.folder / "out"),
        "mapreduce.job.outputformat.class": NEW_TEXT_OUTPUT,
    },
    **{
        f"RDD.{name}.other": lambda scene: scene.pairs().mapValues(str)
        for name in [
            "cogroup",
            "fullOuterJoin",
            "groupWith",
            "join",
            "leftOuterJoin",
            "rightOuterJoin",
            "subtractByKey",
        ]
    },
    # SparkContext
    "value": _is(0),
    "accum_param": _is(None),
    "recursive": _is(True),
    "tag": _is("a-tag"),
    "minPartitions": _is(3),
    "minSplits": _is(3),
    "recordLength": _is(4),
    "inputFormatClass": _is(TEXT_INPUT),
    "c": _is([3, 1, 2, 5, 4]),
    "numSlices": _is(2),
    "start": _is(2),
    "end": _is(9),
    "step": _is(3),
    "rdd": lambda scene: scene.numbers(),
    "rdds": lambda scene: [scene.numbers(), scene.numbers().map(str)],
    "partitions": _is([2, 0, 2]),
    "allowLocal": _is(True),
    "use_unicode": _is(False),
    "dirName": lambda scene: str(scene.folder / "checkpoints"),
    "SparkContext.runJob.partitionFunc": _probed(probes.counted),
    "SparkContext.newAPIHadoopFile.inputFormatClass": _is(NEW_TEXT_INPUT),
    "SparkContext.newAPIHadoopRDD.inputFormatClass": _is(NEW_TEXT_INPUT),
    "SparkContext.accumulator.value": _is(5),
    "SparkContext.getLocalProperty.key": _is("spark.job.description"),
    "SparkContext.setLocalProperty.key": _is("a.key"),
    "SparkContext.setLocalProperty.value": _is("a value"),
    "SparkContext.setJobDescription.value": _is("a description"),
    "SparkContext.getSystemProperty.key": _is("java.specification.version"),
    "SparkContext.setSystemProperty.key": _is("a.key"),
    "SparkContext.setSystemProperty.value": _is("a value"),
    "SparkContext.getOrCreate.conf": lambda scene: SparkConf().set("spark.a", "b"),
    "logLevel": _is("OFF"),
    "SparkContext.binaryFiles.path": lambda scene: scene.path("binary"),
    "SparkContext.binaryRecords.path": lambda scene: scene.path("binary/one.bin"),
    "SparkContext.pickleFile.name": lambda scene: scene.path("pickled"),
    "SparkContext.sequenceFile.path": lambda scene: scene.path("sequence"),
    "SparkContext.wholeTextFiles.path": lambda scene: scene.path("texts"),
    "SparkContext.textFile.name": lambda scene: scene.path("lines.txt"),
    "SparkContext.addFile.path": lambda scene: scene.path("lines.txt"),
    "SparkContext.addPyFile.path": lambda scene: scene.path("module.py"),
    "SparkContext.addFile.recursive": _is(False),
    **{
        f"SparkContext.{name}.{what}": maker
        for name in ("hadoopFile", "newAPIHadoopFile")
        for what, maker in {
            "path": lambda scene: scene.path("lines.txt"),
            "keyClass": _is(LONG),
            "valueClass": _is(TEXT),
            "keyConverter": _is(FROM_WRITABLE),
            "valueConverter": _is(FROM_WRITABLE),
            "conf": _is({"a": "b"}),
        }.items()
    },
    **{
        f"SparkContext.{name}.{what}": maker
        for name in ("hadoopRDD", "newAPIHadoopRDD")
        for what, maker in {
            "keyClass": _is(LONG),
            "valueClass": _is(TEXT),
            "keyConverter": _is(FROM_WRITABLE),
            "valueConverter": _is(FROM_WRITABLE),
            "conf": lambda scene: {INPUT_FOLDER: scene.path("lines.txt")},
        }.items()
    },
    # DataFrame
    "alias": _is("other_name"),
    "col": _is("k"),
    "cols": _is(("k",)),
    "exprs": lambda scene: (F.count(F.lit(1)).alias("n"), F.max("id").alias("most")),
    "col1": _is("id"),
    "col2": _is("x"),
    "method": _is("pearson"),
    "eager": _is(False),
    "subset": _is(["k"]),
    "how": _is("left"),
    "thresh": _is(2),
    "colName": _is("k"),
    "probabilities": _is([0.5]),
    "relativeError": _is(0.0),
    "extended": _is(True),
    "mode": _is("overwrite"),
    "condition": lambda scene: F.col("id") > 3,
    "n": _is(2),
    "support": _is(0.4),
    "parameters": _is((2,)),
    "groupingSets": lambda scene: [[F.col("k")], []],
    "on": _is("id"),
    "barrier": _is(False),
    "ids": _is(["id"]),
    "values": _is(["x"]),
    "variableColumnName": _is("what"),
    "valueColumnName": _is("value"),
    "observation": _is("seen"),
    "existing": _is("k"),
    "new": _is("key"),
    "level": _is(1),
    "to_replace": _is([1]),
    "truncate": _is(4),
    "vertical": _is(True),
    "statistics": _is(("count", "max")),
    "colsMap": lambda scene: {"more": F.col("id") + 1},
    "columnName": _is("k"),
    "metadata": _is({"a": 1}),
    "expr": _is(("id", "x * 2 AS twice")),
    "allowMissingColumns": _is(True),
    "index_col": _is("id"),
    "indexColumn": _is("id"),
    "partitionIdCol": lambda scene: F.col("k"),
    "DataFrame.other": lambda scene: scene.frame().where("id < 4"),
    "DataFrame.unionByName.other": lambda scene: scene.frame().select("x", "id", "k", "text"),
    "DataFrame.intersectAll.other": lambda scene: scene.frame().where("id < 4"),
    "DataFrame.fillna.value": _is(0),
    "DataFrame.fillna.subset": _is(["x"]),
    "DataFrame.replace.value": _is([100]),
    "DataFrame.replace.subset": _is(["id"]),
    "DataFrame.to.schema": lambda scene: scene.frame().select("x", "id").schema,
    "DataFrame.foreach.f": _probed(probes.nothing),
    "DataFrame.foreachPartition.f": _probed(probes.nothing),
    "DataFrame.mapInArrow.func": _probed(iter),
    "DataFrame.mapInPandas.func": _probed(iter),
    "DataFrame.mapInArrow.schema": lambda scene: scene.frame().schema,
    "DataFrame.mapInPandas.schema": lambda scene: scene.frame().schema,
    "DataFrame.sampleBy.fractions": _is({0: 0.5, 1: 1.0}),
    "DataFrame.withColumn.col": lambda scene: F.col("id") * 2,
    "DataFrame.withColumn.colName": _is("more"),
    "DataFrame.withColumnsRenamed.colsMap": _is({"k": "key"}),
    "DataFrame.agg.exprs": lambda scene: (F.sum("id").alias("s"), F.max("text").alias("t")),
    "DataFrame.sort.kwargs": _is({"ascending": False}),
    "DataFrame.orderBy.kwargs": _is({"ascending": False}),
    "DataFrame.sortWithinPartitions.kwargs": _is({"ascending": False}),
    "DataFrame.toDF.cols": _is(("a", "b", "c", "d")),
    "DataFrame.transform.func": _is(lambda frame, *more, **named: frame.where("id > 1")),
    "DataFrame.transform.args": _is((1,)),
    "DataFrame.transform.kwargs": _is({"a": 1}),
    "DataFrame.corr.method": _is("pearson"),
    "DataFrame.lateralJoin.other": lambda scene: scene.spark.range(2).toDF("n"),
    "DataFrame.lateralJoin.on": lambda scene: F.col("n") < F.col("k"),
    "DataFrame.crossJoin.other": lambda scene: scene.spark.range(2).toDF("n"),
    "DataFrame.approxQuantile.col": _is("x"),
    "DataFrame.hint.name": _is("broadcast"),
    "DataFrame.hint.parameters": _is(()),
    "DataFrame.dropna.how": _is("all"),
    "DataFrame.drop.cols": _is(("k", "nowhere")),
    "DataFrame.explain.extended": _is(False),
    "DataFrame.explain.mode": _is("simple"),
    "DataFrame.metadataColumn.colName": _is("_metadata"),
    "DataFrame.sample.withReplacement": _is(False),
    "DataFrame.freqItems.cols": _is(["k"]),
    "DataFrame.colRegex.colName": _is("`k`"),
    "DataFrame.createTempView.name": lambda scene: scene.unused("view"),
    # DataFrameReader, DataFrameWriter
    "source": _is("json"),
    "tableName": _is("a_table"),
    "format": _is("parquet"),
    "options": _is({"header": "true"}),
    "numBuckets": _is(2),
    "overwrite": _is(True),
    "partitionBy": _is("k"),
    "saveMode": _is("overwrite"),
    "header": _is(True),
    "wholetext": _is(True),
    "paths": lambda scene: (scene.path("rows.parquet"),),
    "compression": _is("gzip"),
    "DataFrameReader.option.key": _is("header"),
    "DataFrameReader.option.value": _is("true"),
    "DataFrameWriter.option.key": _is("header"),
    "DataFrameWriter.option.value": _is("true"),
    "DataFrameReader.schema.schema": _is("id bigint"),
    "DataFrameReader.csv.path": lambda scene: scene.path("rows.csv"),
    "DataFrameReader.json.path": lambda scene: scene.path("rows.json"),
    "DataFrameReader.orc.path": lambda scene: scene.path("rows.orc"),
    "DataFrameReader.text.paths": lambda scene: scene.path("lines.txt"),
    "DataFrameReader.load.path": lambda scene: scene.path("rows.parquet"),
    "DataFrameReader.load.schema": _is("id bigint"),
    "DataFrameReader.table.tableName": _is("a_table"),
    "DataFrameReader.csv.schema": _is("id bigint, k bigint, text string, x double"),
    "DataFrameReader.json.schema": _is("id bigint"),
    "DataFrameWriter.sortBy.col": _is("k"),
    "DataFrameWriter.sortBy.cols": _is(("id",)),
    "DataFrameWriter.bucketBy.cols": _is(("id",)),
    "DataFrameWriter.saveAsTable.name": lambda scene: scene.unused("saved"),
    "DataFrameWriter.format.source": _is("json"),
    "DataFrameWriter.orc.compression": _is("zlib"),
    # Options that are keywords of readers and writers.
    "sep": _is(","),
    "encoding": _is("UTF-8"),
    "quote": _is("'"),
    "escape": _is("\\"),
    "comment": _is("#"),
    "inferSchema": _is(True),
    "ignoreLeadingWhiteSpace": _is(True),
    "ignoreTrailingWhiteSpace": _is(True),
    "nullValue": _is("1"),
    "nanValue": _is("2"),
    "positiveInf": _is("inf"),
    "negativeInf": _is("-inf"),
    "dateFormat": _is("yyyy-MM-dd"),
    "timestampFormat": _is("yyyy-MM-dd HH:mm:ss"),
    "maxColumns": _is(50),
    "maxCharsPerColumn": _is(100),
    "maxMalformedLogPerPartition": _is(5),
    "columnNameOfCorruptRecord": _is("bad"),
    "multiLine": _is(True),
    "charToEscapeQuoteEscaping": _is("\\"),
    "samplingRatio": _is(1.0),
    "enforceSchema": _is(True),
    "emptyValue": _is("e"),
    "locale": _is("en-US"),
    "lineSep": _is("\n"),
    "pathGlobFilter": _is("*"),
    "recursiveFileLookup": _is(True),
    "modifiedBefore": _is("2999-01-01T00:00:00"),
    "modifiedAfter": _is("1999-01-01T00:00:00"),
    "unescapedQuoteHandling": _is("STOP_AT_DELIMITER"),
    "primitivesAsString": _is(True),
    "prefersDecimal": _is(True),
    "allowComments": _is(True),
    "allowUnquotedFieldNames": _is(True),
    "allowSingleQuotes": _is(True),
    "allowNumericLeadingZero": _is(True),
    "allowBackslashEscapingAnyCharacter": _is(True),
    "allowUnquotedControlChars": _is(True),
    "allowNonNumericNumbers": _is(True),
    "dropFieldIfAllNull": _is(True),
    "useUnsafeRow": _is(True),
    "mergeSchema": _is(True),
    "quoteAll": _is(True),
    "escapeQuotes": _is(True),
    "ignoreNullFields": _is(False),
    "DataFrameReader.csv.mode": _is("PERMISSIVE"),
    "DataFrameReader.json.mode": _is("PERMISSIVE"),
}
"""By ``Class.method.parameter``, ``Class.parameter`` or parameter; the first of these that is there."""

_STREAM = "of streams, which have tests of their own"
_SETS_UP = "changes the one context of all calls"
_PLAIN = "asks the context alone: no data"
LEFT_OUT: dict[str, str] = {
    "SparkContext.stop": _SETS_UP,
    "SparkContext.PACKAGE_EXTENSIONS": "a constant",
    "SparkContext.applicationId": "differs from run to run",
    "SparkContext.startTime": "differs from run to run",
    "SparkContext.uiWebUrl": "differs from run to run",
    "SparkContext.addArchive": "needs an archive of a Python environment",
    "SparkContext.cancelAllJobs": "there are none at the time",
    "SparkContext.cancelJobGroup": "there are none at the time",
    "SparkContext.cancelJobsWithTag": "there are none at the time",
    "SparkContext.dump_profiles": "needs spark.python.profile",
    "SparkContext.show_profiles": "needs spark.python.profile",
    "SparkContext.getConf": "holds what differs from run to run",
    "SparkContext.resources": _PLAIN,
    "SparkContext.statusTracker": _PLAIN,
    "SparkContext.listFiles": "holds a port that differs from run to run",
    "SparkContext.listArchives": _PLAIN,
    "SparkContext.setLogLevel": _SETS_UP,
    "SparkContext.getCheckpointDir": "holds a name that Spark makes up",
    "RDD.id": "counts the context's RDDs, of which capture makes some",
    "RDD.getCheckpointFile": "holds a name that Spark makes up",
    "RDD.withResources": "needs a cluster of its own (resource profiles)",
    "RDD.context": "the one context",
    "DataFrame.writeStream": _STREAM,
    "DataFrame.withWatermark": _STREAM,
    "DataFrame.dropDuplicatesWithinWatermark": _STREAM,
    "DataFrame.mergeInto": "needs a table format that the environment lacks",
    "DataFrame.writeTo": "needs a catalog that the environment lacks",
    "DataFrame.registerTempTable": "deprecated, as createOrReplaceTempView",
    "DataFrame.createGlobalTempView": "a second call fails; as createOrReplaceGlobalTempView",
    "DataFrame.plot": "needs plotting libraries",
    "DataFrame.pandas_api": "needs pandas on Spark, whose programs are not captured by rows",
    "DataFrame.executionInfo": "of Spark Connect alone",
    "DataFrame.asTable": "an argument of table functions",
    "DataFrame.scalar": "a column for other queries",
    "DataFrame.exists": "a column for other queries",
    "DataFrame.sparkSession": "the one session",
    "DataFrame.sql_ctx": "deprecated, the one session",
    "DataFrame.metadataColumn": "a column for other queries",
    "DataFrame.colRegex": "a column for other queries",
    "DataFrame.semanticHash": "counts expressions of the session",
    "DataFrame.inputFiles": "asks the plan alone",
    "DataFrame.explain": "prints numbers that differ from run to run",
    "DataFrame.transpose": "fails for want of a common type",
    "DataFrameReader.jdbc": "needs a database: tests/integration/test_frames_jdbc.py",
    "DataFrameReader.xml": "has thirty options; of 4.0 alone",
    "DataFrameReader.table": "needs a table: tests/integration/test_frames_tables.py",
    "DataFrameWriter.jdbc": "needs a database: tests/integration/test_frames_jdbc.py",
    "DataFrameWriter.xml": "has fifteen options; of 4.0 alone",
    "DataFrameWriter.insertInto": "needs a table: tests/integration/test_frames_tables.py",
    "DataFrameWriter.clusterBy": "needs a table format that the environment lacks",
    "DataFrame.repartitionById": "of 4.1 alone: cuts into partitions and gives no other rows",
}
"""Methods that no call is made of, with the reason."""

LEFT_OUT_PARAMETERS: dict[str, str] = {
    "DataFrame.mapInArrow.profile": "needs a resource profile",
    "DataFrame.mapInPandas.profile": "needs a resource profile",
    "SparkContext.accumulator.accum_param": "of the kind of the value; the calls have accumulators of their own",
    "RDD.toDF.sampleRatio": "of rows without a schema alone",
}
"""Parameters that no call gives, with the reason."""


def maker(owner: str, method: str, parameter: str) -> Maker | None:
    """What makes the argument."""
    for name in (f"{owner}.{method}.{parameter}", f"{owner}.{parameter}", parameter):
        if name in ARGUMENTS:
            return ARGUMENTS[name]
    return None


def has_maker(owner: str, method: str, parameter: str) -> bool:
    """Whether there is one."""
    return maker(owner, method, parameter) is not None


def receiver(scene: Scene, owner: str, method: str) -> Any:
    """What the method is called of."""
    if owner == "RDD":
        return RECEIVERS.get(method, Scene.numbers)(scene)
    if owner == "SparkContext":
        return scene.sc
    if owner == "DataFrame":
        return scene.frame()
    if owner == "DataFrameReader":
        return scene.spark.read
    # A file of text has one column, of strings.
    return (scene.frame().select("text") if method == "text" else scene.frame()).write
