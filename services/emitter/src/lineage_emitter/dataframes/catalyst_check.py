"""Whether the classes of plans are what recipes take them for, in a Spark that no test has run in.

``catalyst.json`` has the fields that each class had in the versions that were tested. A field more or less may change what a
class means, and a recipe would not say so. A class that is not there is in no plan.
"""

from __future__ import annotations

import json
from importlib.resources import files

from lineage_emitter.dataframes.plan_text import WRITER_CLASS, compiled

_FIELDS_CLASS = "lineage.CatalystFields"


def known_fields() -> dict[str, list[str]]:
    """By class, its fields in each version that was tested."""
    fields_by_class: dict[str, list[str]] = json.loads(
        files(__package__).joinpath("catalyst.json").read_text("utf-8")
    )
    return fields_by_class


def changed_classes() -> list[str]:
    """The names of classes whose fields are none of those that are known. It needs a SparkContext."""
    compiled(WRITER_CLASS)
    expected_fields = known_fields()
    output = str(compiled(_FIELDS_CLASS).of("\n".join(expected_fields)))
    actual_fields = dict(line.partition(" ")[::2] for line in output.splitlines())
    return sorted(
        name.rpartition(".")[2]
        for name, fields in actual_fields.items()
        if fields not in expected_fields[name]
    )
