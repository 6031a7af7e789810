"""Functions and operators that a trace writes into a statement: those that a recipe may name, and no other.

Spark knows many more. Some run any code (`java_method`, `reflect`, `try_reflect`), read files (`from_protobuf`), or are what
somebody has registered under a name. So a name that is not here is refused.
"""

from __future__ import annotations

ALLOWED_FUNCTIONS = frozenset({
    "%", "&", "*", "+", "-", "/", "<", "<=", "<=>", "=", ">", ">=", "[]", "^", "abs", "acos", "add_months",
    "aggregate", "and", "array", "array_contains", "array_distinct", "array_except", "array_intersect",
    "array_join", "array_max", "array_min", "array_position", "array_remove", "array_repeat", "array_union",
    "arrays_overlap", "arrays_zip", "ascii", "asin", "atan", "atan2", "avg", "base64", "bin", "bit_and",
    "bit_count", "bit_length", "bit_or", "bit_xor", "bround", "btrim", "case", "cast", "cbrt", "ceil",
    "char_length", "chr", "coalesce", "collect_list", "collect_set", "concat", "concat_ws", "contains", "conv", "corr", "cos", "cosh", "count",
    "covar_pop", "covar_samp", "crc32", "cume_dist", "date_add", "date_format", "date_from_unix_date",
    "date_part", "date_sub", "date_trunc", "datediff", "dayofmonth", "dayofweek", "dayofyear", "degrees",
    "dense_rank", "div", "element_at", "elt", "endswith", "exists", "exp", "explode", "expm1", "factorial",
    "field", "filter", "find_in_set", "flatten", "floor", "forall", "format_number", "format_string", "from_json",
    "from_unixtime", "from_utc_timestamp", "get_json_object", "greatest", "hash", "hex", "hour", "hypot", "if",
    "in", "initcap", "inline", "instr", "is not null", "is null", "isnan", "kurtosis", "lag", "lambda",
    "lambda variable", "last_day", "lead", "least", "length", "levenshtein", "like", "ln", "locate", "log",
    "log10", "log1p", "log2", "lower", "lpad", "ltrim", "make_date", "map", "map_concat", "map_entries",
    "map_filter", "map_from_arrays", "map_from_entries", "map_keys", "map_values", "map_zip_with", "max",
    "max_by", "md5", "min", "min_by", "minute", "month", "months_between", "named_struct", "nanvl", "negative",
    "next_day", "not", "nth_value", "ntile", "octet_length", "or", "overlay", "percent_rank", "percentile",
    "pmod", "posexplode", "positive", "power", "quarter", "radians", "raise_error", "rank", "regexp_count", "regexp_extract",
    "regexp_extract_all", "regexp_instr", "regexp_replace", "repeat", "replace", "reverse", "rint", "rlike",
    "round", "row_number", "rpad", "rtrim", "second", "sequence", "sha1", "sha2", "shiftleft", "shiftright",
    "shiftrightunsigned", "signum", "sin", "sinh", "size", "skewness", "slice", "sort_array", "soundex", "space",
    "split", "split_part", "sqrt", "stack", "startswith", "stddev_pop", "stddev_samp", "str_to_map", "struct",
    "substring", "substring_index", "sum", "tan", "tanh", "timestamp_micros", "timestamp_millis",
    "timestamp_seconds", "to_unix_timestamp", "to_utc_timestamp", "transform", "transform_keys",
    "transform_values", "translate", "trunc", "try_add", "try_avg", "try_cast", "try_divide", "try_mod",
    "try_multiply", "try_subtract", "try_sum", "unbase64", "unhex", "unix_date", "unix_micros", "unix_millis",
    "unix_seconds", "unix_timestamp", "upper", "var_pop", "var_samp", "weekday", "weekofyear", "width_bucket",
    "xxhash64", "year", "zip_with", "|", "~",
})  # fmt: skip
"""As `lineage_emitter.dataframes.functions` and ``expressions`` there call them; a test compares."""

AGGREGATES = frozenset({
    "avg", "bit_and", "bit_or", "bit_xor", "collect_list", "collect_set", "corr", "count", "covar_pop", "covar_samp", "kurtosis", "max", "max_by", "min",
    "min_by", "percentile", "skewness", "stddev_pop", "stddev_samp", "sum", "try_avg", "try_sum", "var_pop", "var_samp",
})  # fmt: skip
"""Those of them that combine the rows of a group."""
