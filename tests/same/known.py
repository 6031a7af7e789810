"""What is known: differences, and programs that fail in both ways. What is mended is taken out."""

from __future__ import annotations

import re
from collections.abc import Sequence

KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"^DataFrame\.(toJSON|(localC|c)heckpoint|approxQuantile|corr|cov|crosstab|freqItems)\(",
        "^unknown$",
        "the guide lists them (dataframes.md, What is not recorded): the verdict names them",
    ),
)
"""Differences: patterns of the program's name and of what differs, and the reason."""

EXPECTED: tuple[tuple[str, str, str], ...] = (
    (
        r"^SparkContext\.(newAPIH|h)adoop(File|RDD)\(.*(key|value)Converter",
        "NoSuchMethodException.*WritableToJavaConverter",
        "PySpark's package has no converter of inputs that could be named",
    ),
    (
        r"^SparkContext\.(newAPIH|h)adoopRDD\(inputFormatClass, keyClass, valueClass",
        "No input paths specified in job",
        "the paths stand in conf, which this call lacks",
    ),
    (
        r"^DataFrame\.replace\(to_replace(, subset=)?\)",
        "ARGUMENT_REQUIRED",
        "PySpark wants a value for a list",
    ),
    (
        r"^DataFrame\.sample\((withReplacement=|seed=)?\)",
        "NOT_BOOL_OR_FLOAT_OR_INT",
        "PySpark wants a fraction",
    ),
)
"""Failures that plain PySpark has, too, and is to have: patterns of the name and of the error, and the reason."""


def known(name: str, what: str) -> str:
    """The reason why a program differs in this; empty where none is known."""
    return _reason(KNOWN, name, what)


def expected(name: str, error: Sequence[str]) -> str:
    """The reason why a program fails plainly and captured; empty where none is known."""
    return _reason(EXPECTED, name, ": ".join(error))


def _reason(listed: tuple[tuple[str, str, str], ...], name: str, what: str) -> str:
    fitting = (
        reason
        for of_name, of_what, reason in listed
        if re.search(of_name, name) and re.search(of_what, what)
    )
    return next(fitting, "")
