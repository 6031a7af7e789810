"""Relations of files, as a plan's text describes them, as sources of a recipe."""

from __future__ import annotations

from collections.abc import Mapping

from lineage_core.recipe.document import File, Source
from lineage_emitter.dataframes.plan_text import PlanRelation

READ_OPTIONS = {
    "header", "sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping", "comment", "encoding",
    "charset", "multiLine", "mode", "nullValue", "nanValue", "emptyValue", "positiveInf", "negativeInf",
    "dateFormat", "timestampFormat", "timestampNTZFormat", "locale", "lineSep", "wholetext",
    "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "enforceSchema", "columnNameOfCorruptRecord",
    "maxColumns", "maxCharsPerColumn", "unescapedQuoteHandling", "allowComments", "primitivesAsString",
    "allowUnquotedFieldNames", "allowSingleQuotes", "allowNumericLeadingZeros", "dropFieldIfAllNull",
    "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars", "allowNonNumericNumbers",
    "prefersDecimal", "timeZone", "basePath", "mergeSchema", "datetimeRebaseMode", "int96RebaseMode",
    "timeFormat", "enableDateTimeParsingFallback",
}  # fmt: skip
"""Options that change what is read. No other is recorded: some carry passwords."""

_LOWER = {one.lower(): one for one in READ_OPTIONS}


def file_source(relation: PlanRelation) -> Source:
    """The source that a relation of files is, with its files as they are now."""
    return Source(
        format=relation["format"].lower(),
        paths=tuple(relation["paths"]),
        schema=relation["schema"],
        partitions=relation["partitions"],
        options=_readable_options(relation["options"]),
        files=tuple(
            sorted(
                (File(*file_fields) for file_fields in relation["files"]),
                key=lambda file: file.path,
            )
        ),
    )


def _readable_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a reader's options that change what is read."""
    return {_LOWER[key.lower()]: value for key, value in options.items() if key.lower() in _LOWER}
