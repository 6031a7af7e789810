"""Catalyst's expression classes that a recipe can say, by their Spark SQL names.

A class belongs here when its children, in order, are the arguments of the function of that name, and when
all else that decides its value is recorded with the recipe (its settings). One line each. What only some
places need (casts, CASE, windows, aggregates' filters) is in `expressions`.
"""

from __future__ import annotations

OPERATORS = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%",
    "IntegralDivide": "div", "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<",
    "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "And": "and", "Or": "or",
    "Not": "not", "IsNull": "is null", "IsNotNull": "is not null", "In": "in", "BitwiseAnd": "&",
    "BitwiseOr": "|", "BitwiseXor": "^", "BitwiseNot": "~", "RLike": "rlike", "CaseWhen": "case", "If": "if",
    "GetArrayItem": "[]", "GetMapValue": "[]",
}  # fmt: skip

FUNCTIONS = {
    # numbers
    "UnaryMinus": "negative", "UnaryPositive": "positive", "Abs": "abs", "Pmod": "pmod", "Round": "round",
    "BRound": "bround", "Ceil": "ceil", "Floor": "floor", "Sqrt": "sqrt", "Cbrt": "cbrt", "Exp": "exp",
    "Expm1": "expm1", "Log": "ln", "Log2": "log2", "Log10": "log10", "Log1p": "log1p", "Logarithm": "log",
    "Pow": "power", "Signum": "signum", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin",
    "Acos": "acos", "Atan": "atan", "Atan2": "atan2", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh",
    "Hypot": "hypot", "ToDegrees": "degrees", "ToRadians": "radians", "Rint": "rint", "Greatest": "greatest",
    "Least": "least", "ShiftLeft": "shiftleft", "ShiftRight": "shiftright",
    "ShiftRightUnsigned": "shiftrightunsigned", "Factorial": "factorial", "Hex": "hex", "Unhex": "unhex",
    "Bin": "bin", "Conv": "conv", "BitwiseCount": "bit_count", "WidthBucket": "width_bucket",
    # NULL and NaN
    "Coalesce": "coalesce", "IsNaN": "isnan", "NaNvl": "nanvl",
    # text
    "Concat": "concat", "ConcatWs": "concat_ws", "Upper": "upper", "Lower": "lower", "Length": "length",
    "OctetLength": "octet_length", "BitLength": "bit_length", "Substring": "substring",
    "SubstringIndex": "substring_index", "StringInstr": "instr", "StringLocate": "locate",
    "StringLPad": "lpad", "StringRPad": "rpad", "StringRepeat": "repeat", "StringReplace": "replace",
    "Reverse": "reverse", "StringSplit": "split", "StringSpace": "space", "StringTranslate": "translate",
    "InitCap": "initcap", "Ascii": "ascii", "Chr": "chr", "Base64": "base64", "UnBase64": "unbase64",
    "SoundEx": "soundex", "Levenshtein": "levenshtein", "FormatNumber": "format_number",
    "FormatString": "format_string", "StartsWith": "startswith", "EndsWith": "endswith",
    "Contains": "contains", "RegExpExtract": "regexp_extract", "RegExpExtractAll": "regexp_extract_all",
    "RegExpReplace": "regexp_replace", "RegExpCount": "regexp_count", "RegExpInStr": "regexp_instr",
    "FindInSet": "find_in_set", "SplitPart": "split_part", "Elt": "elt", "Overlay": "overlay",
    # dates and times
    "DateAdd": "date_add", "DateSub": "date_sub", "DateDiff": "datediff", "AddMonths": "add_months",
    "MonthsBetween": "months_between", "Year": "year", "Quarter": "quarter", "Month": "month",
    "DayOfMonth": "dayofmonth", "DayOfWeek": "dayofweek", "DayOfYear": "dayofyear", "WeekDay": "weekday",
    "WeekOfYear": "weekofyear", "Hour": "hour", "Minute": "minute",
    "Second": "second", "LastDay": "last_day", "NextDay": "next_day", "TruncDate": "trunc",
    "TruncTimestamp": "date_trunc", "DateFormatClass": "date_format", "FromUnixTime": "from_unixtime",
    "UnixTimestamp": "unix_timestamp", "ToUnixTimestamp": "to_unix_timestamp",
    "FromUTCTimestamp": "from_utc_timestamp", "ToUTCTimestamp": "to_utc_timestamp",
    "MakeDate": "make_date", "UnixDate": "unix_date", "DateFromUnixDate": "date_from_unix_date",
    "SecondsToTimestamp": "timestamp_seconds", "MillisToTimestamp": "timestamp_millis",
    "MicrosToTimestamp": "timestamp_micros", "UnixSeconds": "unix_seconds", "UnixMillis": "unix_millis",
    "UnixMicros": "unix_micros",
    # hashes
    "Murmur3Hash": "hash", "XxHash64": "xxhash64", "Md5": "md5", "Sha1": "sha1", "Sha2": "sha2",
    "Crc32": "crc32",
    # arrays, maps, structs
    "CreateArray": "array", "CreateMap": "map", "CreateNamedStruct": "named_struct", "Size": "size",
    "ArrayContains": "array_contains", "ElementAt": "element_at", "ArraysOverlap": "arrays_overlap",
    "ArrayPosition": "array_position", "ArrayMax": "array_max", "ArrayMin": "array_min",
    "ArrayDistinct": "array_distinct", "ArrayUnion": "array_union", "ArrayIntersect": "array_intersect",
    "ArrayExcept": "array_except", "ArrayRepeat": "array_repeat", "ArrayRemove": "array_remove",
    "ArrayJoin": "array_join", "Slice": "slice", "SortArray": "sort_array", "Flatten": "flatten",
    "Sequence": "sequence", "ArraysZip": "arrays_zip", "MapKeys": "map_keys", "MapValues": "map_values",
    "MapEntries": "map_entries", "MapConcat": "map_concat", "MapFromArrays": "map_from_arrays",
    "MapFromEntries": "map_from_entries", "StringToMap": "str_to_map",
    "GetJsonObject": "get_json_object",
}  # fmt: skip

HIGHER_ORDER = {
    "ArrayTransform": "transform", "ArrayFilter": "filter", "ArrayExists": "exists",
    "ArrayForAll": "forall", "ArrayAggregate": "aggregate", "ZipWith": "zip_with",
    "MapFilter": "map_filter", "TransformKeys": "transform_keys", "TransformValues": "transform_values",
    "MapZipWith": "map_zip_with",
}  # fmt: skip

LENIENT = {
    "Add": "try_add", "Subtract": "try_subtract", "Multiply": "try_multiply", "Divide": "try_divide",
    "Remainder": "try_mod", "Sum": "try_sum", "Average": "try_avg",
}  # fmt: skip
"""Functions that are NULL where those above, of the same class, are an error."""

AGGREGATES = {
    "Sum": "sum", "Average": "avg", "Count": "count", "Min": "min", "Max": "max",
    "StddevSamp": "stddev_samp", "StddevPop": "stddev_pop", "VarianceSamp": "var_samp",
    "VariancePop": "var_pop", "Corr": "corr", "PearsonCorrelation": "corr", "CovSample": "covar_samp",
    "CovPopulation": "covar_pop", "Skewness": "skewness", "Kurtosis": "kurtosis",
    "BitAndAgg": "bit_and", "BitOrAgg": "bit_or", "BitXorAgg": "bit_xor",
    "MaxBy": "max_by", "MinBy": "min_by", "Percentile": "percentile",
}  # fmt: skip

ORDER_DEPENDENT = {
    "First",
    "Last",
    "CollectList",
    "CollectSet",
    "AnyValue",
    "ListAgg",
    "Mode",
    "PivotFirst",
}
"""Aggregates whose value depends on the order of rows, which no plan fixes."""

COLLECTIONS = {"CollectList": "collect_list", "CollectSet": "collect_set"}
"""Those of them whose values are sorted at once, by ``sort_array``, as a rule."""

SAME_IF_EQUAL = frozenset(
    {
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "boolean",
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
        "binary",
    }
)
"""Types whose equal values are the same, so that an order of them leaves nothing open. Of doubles 0 and -0 are not."""

ONE_ROW_AGGREGATES = {"First": "first", "Last": "last"}
"""Those of them that, NULL or not, give the value of one row, the same for all of an aggregate."""

WINDOW_FUNCTIONS = {
    "Rank": "rank", "DenseRank": "dense_rank", "PercentRank": "percent_rank", "RowNumber": "row_number",
    "CumeDist": "cume_dist", "NTile": "ntile", "Lag": "lag", "Lead": "lead", "NthValue": "nth_value",
}  # fmt: skip

GENERATORS = {
    "Explode": "explode",
    "PosExplode": "posexplode",
    "Inline": "inline",
    "Stack": "stack",
}

TRANSPARENT = {
    "Alias", "CheckOverflowInTableInsert", "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero",
    "PromotePrecision", "TempResolvedColumn",
}  # fmt: skip
"""Marks for the optimiser; they have their child's value (or, as keys, one equal to it)."""

ALWAYS_TRUE = {"DynamicPruningSubquery", "DynamicPruningExpression", "BloomFilterMightContain"}
"""Runtime filters: they spare work ahead of a join and change no result."""
