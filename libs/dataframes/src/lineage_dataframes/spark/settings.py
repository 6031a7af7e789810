"""Settings of a job that a trace sets again: those on a list, with values of their kind. All others are refused.

A setting may give text a meaning (substitution, quotes, regular expressions for names), have files read or code run.
So a recipe does not choose what it sets in the session of somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import RefusedError

_FLAG = re.compile(r"true|false", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"-?\d{1,10}")
_ZONE = re.compile(r"[\w+:/-]+", re.ASCII)
_TEXT = re.compile(r".*", re.DOTALL)
"""Free text, which reaches Spark as a setting's value and never as text of a statement."""

REPLAYED: Mapping[str, re.Pattern[str]] = {
    "spark.sql.ansi.enabled": _FLAG,
    "spark.sql.caseSensitive": _FLAG,
    "spark.sql.columnNameOfCorruptRecord": _TEXT,
    "spark.sql.decimalOperations.allowPrecisionLoss": _FLAG,
    "spark.sql.execution.arrow.maxRecordsPerBatch": _NUMBER,
    "spark.sql.execution.arrow.useLargeVarTypes": _FLAG,
    "spark.sql.execution.pandas.convertToArrowArraySafely": _FLAG,
    "spark.sql.execution.pandas.structHandlingMode": _WORD,
    "spark.sql.execution.pyspark.binaryAsBytes": _FLAG,
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled": _FLAG,
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype": _FLAG,
    "spark.sql.json.enableExactStringParsing": _FLAG,
    "spark.sql.json.enablePartialResults": _FLAG,
    "spark.sql.legacy.castComplexTypesToString.enabled": _FLAG,
    "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName": _FLAG,
    "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled": _FLAG,
    "spark.sql.legacy.json.allowEmptyString.enabled": _FLAG,
    "spark.sql.legacy.literal.pickMinimumPrecision": _FLAG,
    "spark.sql.legacy.sizeOfNull": _FLAG,
    "spark.sql.legacy.statisticalAggregate": _FLAG,
    "spark.sql.legacy.timeParserPolicy": _WORD,
    "spark.sql.mapKeyDedupPolicy": _WORD,
    "spark.sql.parquet.binaryAsString": _FLAG,
    "spark.sql.parquet.int96AsTimestamp": _FLAG,
    "spark.sql.session.timeZone": _ZONE,
    "spark.sql.sources.partitionColumnTypeInference.enabled": _FLAG,
    "spark.sql.timestampType": _WORD,
}
"""Settings that change what a plan or a file means, each with the form of its values."""

STATEMENT_SETTINGS = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    # Named queries are put where they are read at once: to analyse a chain of them takes Spark far longer otherwise.
    "spark.sql.legacy.ctePrecedencePolicy": "LEGACY",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "false",
    # What a query leaves in Parquet files is read by others, too.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # A name between backquotes is a name.
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.shuffle.partitions": "4",
    # `${...}` in a constant or name is that text: nothing of the session, its machine or its environment stands for it.
    "spark.sql.variable.substitute": "false",
}
"""Settings that the statements of a trace are written for. A job's never take their place."""

_REFERENCE = re.compile(r"\$\{(?:\w+:|spark\.)")
"""What Spark replaces in a setting's value by another setting, or a variable of the process."""


def replayed_settings(recipe: Recipe) -> dict[str, str]:
    """The settings of the job that a trace sets again.

    Raises:
        RefusedError: the recipe has one that is not on the list, or whose value is none.
    """
    for name, value in recipe.settings.items():
        form = REPLAYED.get(name)
        if form is None:
            raise RefusedError(f"the recipe has a setting of another kind: {name}")
        if _REFERENCE.search(value):
            raise RefusedError(
                f"the recipe's setting {name} stands for another setting or variable, "
                "whose value in the job is not known"
            )
        if not form.fullmatch(value):
            raise RefusedError(f"the recipe's setting {name} has no value of its kind: {value!r}")
    return dict(recipe.settings)
