"""Every function that a recipe can say means in the recipe what it meant in the program.

For each class of `lineage_emitter.dataframes.functions` there is an expression (or several) in Spark SQL. Many of
them stand in one query over a table of ordinary and edge values; the query's recipe, rebuilt, must give the
same values of the same types.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from benchmarks.frames_oracle import ParquetTables, rebuild, recipe_of_frame, same_value
from lineage_emitter.dataframes import functions as known

pytestmark = pytest.mark.integration

DAY = datetime.date
UTC = datetime.UTC
AT = datetime.datetime

VALUES = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "n": pa.array([7, -3, 0, None, 12, 2], pa.int32()),
        "m": pa.array([2, 5, 1, 3, None, -2], pa.int32()),
        "p": pa.array([3, 1, 2, 4, 1, 2], pa.int32()),
        "d": [0.5, -1.25, -0.0, None, float("nan"), 3.0],
        "q": pa.array([0.25, 0.5, 1.0, None, 2.0, 0.125]),
        "a": pa.array([Decimal(one) if one else None for one in ("1.50", "-2.25", "0.00", None, "999.99", "0.05")],
                      pa.decimal128(7, 2)),
        "s": ["hello world", "", "Ab,c", None, "10", " it's "],
        "t": ["l", "b", ",", "x", None, "i"],
        "y": pa.array([DAY(2024, 2, 29), DAY(1969, 12, 31), DAY(2000, 1, 1), None, DAY(2023, 12, 31), DAY(1582, 10, 15)]),
        "z": pa.array([AT(2024, 3, 31, 1, 30, 5, 123456, UTC), AT(1969, 12, 31, 23, 59, 59, 0, UTC),
                       AT(2000, 1, 1, tzinfo=UTC), None, AT(2023, 10, 29, 1, 30, tzinfo=UTC), AT(1970, 1, 1, tzinfo=UTC)],
                      pa.timestamp("us", "UTC")),
        "u": ["2024-01-02 03:04:05", "1970-01-01 00:00:00", "2023-07-01 12:00:00", None, "2000-02-29 23:59:59", "1999-12-31 00:00:01"],
        "x": pa.array([[3, 1, None, 1], [], [2], None, [5, 4, 4], [None]], pa.list_(pa.int32())),
        "v": pa.array([[1, 9], [4], [], [1], None, [None, 2]], pa.list_(pa.int32())),
        "w": pa.array([["a", None, "b"], [], ["c"], None, ["", "d"], ["e"]], pa.list_(pa.string())),
        "b": [True, False, None, True, False, True],
        "j": ['{"k": {"l": 1}, "m": [1, 2]}', "{}", "no json", None, '{"k": null}', '{"k": "v"}'],
    }
)  # fmt: skip

# Each class by the expressions that hold it. Where the optimiser writes another class for what SQL says
# (`a <> b` as not and =), or SQL has no name for the class, the way to it is given.
SCALARS: dict[str, list[str]] = {
    "Add": ["n + m", "a + 1", "d + q"],
    "Subtract": ["n - m", "a - n", "y - 3"],
    "Multiply": ["n * m", "a * a", "d * 2"],
    "Divide": ["n / p", "a / p", "d / q"],
    "Remainder": ["n % p", "a % p", "d % q"],
    "IntegralDivide": ["n div p", "a div p"],
    "EqualTo": ["n = m", "d = -0.0D", "s = 'hello world'"],
    "EqualNullSafe": ["n <=> m", "d <=> double('nan')"],
    "LessThan": ["n < m", "d < q", "s < t"],
    "LessThanOrEqual": ["n <= m", "y <= date'2000-01-01'"],
    "GreaterThan": ["n > m", "d > 1", "z > timestamp'2000-01-01 00:00:00'"],
    "GreaterThanOrEqual": ["n >= m", "a >= 1.5"],
    "And": ["n > 0 and b"],
    "Or": ["n > 0 or b"],
    "Not": ["not b", "n <> m"],
    "IsNull": ["n is null"],
    "IsNotNull": ["x is not null"],
    "In": ["n in (7, m, null)", "s in ('10', t)"],
    "BitwiseAnd": ["n & m"],
    "BitwiseOr": ["n | m"],
    "BitwiseXor": ["n ^ m"],
    "BitwiseNot": ["~n"],
    "RLike": ["s rlike '^[A-Z]\\\\w'", "s rlike t"],
    "CaseWhen": ["case when n > 5 then s when b then t end", "case n when 7 then 1 when 0 then 2.5 else m end"],
    "If": ["if(b, n, m)", "if(n > 0, a, 0)"],
    "GetArrayItem": ["array(n, m)[p % 2]"],
    "GetMapValue": ["str_to_map(u, ' ', ':')['2024-01-02']"],
    "UnaryMinus": ["-n", "-d", "-a"],
    "Abs": ["abs(n)", "abs(a)"],
    "Pmod": ["pmod(n, p)", "pmod(d, 2)"],
    "Round": ["round(a, 1)", "round(d)", "round(n, -1)"],
    "BRound": ["bround(a, 1)", "bround(d)"],
    "Ceil": ["ceil(d)", "ceil(a)"],
    "Floor": ["floor(q)", "floor(a)"],
    "Sqrt": ["sqrt(q)", "sqrt(d)"],
    "Cbrt": ["cbrt(d)"],
    "Exp": ["exp(d)"],
    "Expm1": ["expm1(d)"],
    "Log": ["ln(q)", "ln(d)"],
    "Log2": ["log2(q)"],
    "Log10": ["log10(q)"],
    "Log1p": ["log1p(q)"],
    "Logarithm": ["log(p + 1, q)"],
    "Pow": ["power(p, q)"],
    "Signum": ["signum(d)"],
    "Sin": ["sin(d)"],
    "Cos": ["cos(d)"],
    "Tan": ["tan(d)"],
    "Asin": ["asin(d)"],
    "Acos": ["acos(d)"],
    "Atan": ["atan(d)"],
    "Atan2": ["atan2(d, q)"],
    "Sinh": ["sinh(d)"],
    "Cosh": ["cosh(d)"],
    "Tanh": ["tanh(d)"],
    "Hypot": ["hypot(d, q)"],
    "ToDegrees": ["degrees(d)"],
    "ToRadians": ["radians(d)"],
    "Rint": ["rint(d)"],
    "Greatest": ["greatest(n, m, p)", "greatest(d, q)"],
    "Least": ["least(n, m, p)", "least(d, q)"],
    "ShiftLeft": ["shiftleft(n, p)"],
    "ShiftRight": ["shiftright(n, p)"],
    "ShiftRightUnsigned": ["shiftrightunsigned(n, p)"],
    "Factorial": ["factorial(p)"],
    "Hex": ["hex(n)", "hex(s)"],
    "Unhex": ["unhex(hex(s))"],
    "Bin": ["bin(n)"],
    "Conv": ["conv(p, 10, 2)", "conv(s, 16, 10)"],
    "BitwiseCount": ["bit_count(n)"],
    "WidthBucket": ["width_bucket(d, 0, 4, 8)"],
    "Coalesce": ["coalesce(n, m, 5)"],
    "IsNaN": ["isnan(d)"],
    "NaNvl": ["nanvl(d, q)"],
    "Concat": ["concat(s, t)", "x || v"],
    "ConcatWs": ["concat_ws('-', s, w, t)"],
    "Upper": ["upper(s)"],
    "Lower": ["lower(s)"],
    "Length": ["length(s)"],
    "OctetLength": ["octet_length(s)"],
    "BitLength": ["bit_length(s)"],
    "Substring": ["substring(s, p, 3)", "substring(s, -2)", "substr(s, p)"],
    "SubstringIndex": ["substring_index(s, t, -1)"],
    "StringInstr": ["instr(s, t)"],
    "StringLocate": ["locate(t, s)", "locate('l', s, p + 3)", "position('o' in s)"],
    "StringLPad": ["lpad(s, 5)", "lpad(s, 14, 'xy')"],
    "StringRPad": ["rpad(s, 5)", "rpad(s, 14, 'xy')"],
    "StringRepeat": ["repeat(s, p)"],
    "StringReplace": ["replace(s, 'l', 'LL')", "replace(s, t)"],
    "Reverse": ["reverse(s)", "reverse(x)"],
    "StringSplit": ["split(s, '[l,]')", "split(s, 'l', 2)"],
    "StringSpace": ["space(p)"],
    "StringTranslate": ["translate(s, 'lo', '0')"],
    "InitCap": ["initcap(s)"],
    "Ascii": ["ascii(s)"],
    "Chr": ["chr(n + 60)"],
    "UnBase64": ["unbase64(lpad(hex(s), 24, '0'))"],
    "SoundEx": ["soundex(s)"],
    "Levenshtein": ["levenshtein(s, t)", "levenshtein(s, t, 3)"],
    "FormatNumber": ["format_number(d, 2)", "format_number(a, '#.0')"],
    "FormatString": ["format_string('%d|%s', n, s)"],
    "StartsWith": ["startswith(s, t)", "s like 'he%'"],
    "EndsWith": ["endswith(s, t)"],
    "Contains": ["contains(s, t)"],
    "RegExpExtract": ["regexp_extract(s, '(l+)(o)', 2)", "regexp_extract(s, '(o)')"],
    "RegExpExtractAll": ["regexp_extract_all(s, '(l|o)', 1)", "regexp_extract_all(s, '(l)')"],
    "RegExpReplace": ["regexp_replace(s, 'l+', 'L')", "regexp_replace(s, 'l', 'L', 4)"],
    "RegExpInStr": ["regexp_instr(s, 'o')", "regexp_instr(s, 'o', 1)"],
    "FindInSet": ["find_in_set('c', s)"],
    "Elt": ["elt(p % 2 + 1, s, t)"],
    "Overlay": ["overlay(s placing 'XX' from 2)", "overlay(s placing 'XX' from p for 1)"],
    "DateAdd": ["date_add(y, n)"],
    "DateSub": ["date_sub(y, n)"],
    "DateDiff": ["datediff(y, date'2000-01-01')", "datediff(date'2000-01-01', y)"],
    "AddMonths": ["add_months(y, n)"],
    "MonthsBetween": ["months_between(z, y)", "months_between(z, y, false)"],
    "Year": ["year(y)", "year(z)"],
    "Quarter": ["quarter(y)"],
    "Month": ["month(z)"],
    "DayOfMonth": ["day(z)"],
    "DayOfWeek": ["dayofweek(y)"],
    "DayOfYear": ["dayofyear(y)"],
    "WeekDay": ["weekday(y)"],
    "WeekOfYear": ["weekofyear(y)"],
    "YearOfWeek": ["extract(yearofweek from y)"],
    "Hour": ["hour(z)"],
    "Minute": ["minute(z)"],
    "Second": ["second(z)"],
    "LastDay": ["last_day(y)"],
    "NextDay": ["next_day(y, 'MO')"],
    "TruncDate": ["trunc(y, 'month')"],
    "TruncTimestamp": ["date_trunc('hour', z)", "date_trunc('day', z)"],
    "DateFormatClass": ["date_format(z, 'yyyy/MM/dd HH:mm XXX')", "date_format(y, 'E')"],
    "FromUnixTime": ["from_unixtime(n * 100000)", "from_unixtime(n, 'HH:mm')"],
    "UnixTimestamp": ["unix_timestamp(u)", "unix_timestamp(y)", "unix_timestamp(u, 'yyyy-MM-dd HH:mm:ss')"],
    "ToUnixTimestamp": ["to_unix_timestamp(u)", "to_unix_timestamp(z)"],
    "FromUTCTimestamp": ["from_utc_timestamp(z, 'Asia/Tokyo')"],
    "ToUTCTimestamp": ["to_utc_timestamp(z, 'Asia/Tokyo')"],
    "MakeDate": ["make_date(2000 + p, p, 28)"],
    "UnixDate": ["unix_date(y)"],
    "DateFromUnixDate": ["date_from_unix_date(n)"],
    "SecondsToTimestamp": ["timestamp_seconds(n)", "timestamp_seconds(q)"],
    "MillisToTimestamp": ["timestamp_millis(n)"],
    "MicrosToTimestamp": ["timestamp_micros(n)"],
    "UnixSeconds": ["unix_seconds(z)"],
    "UnixMillis": ["unix_millis(z)"],
    "UnixMicros": ["unix_micros(z)"],
    "Murmur3Hash": ["hash(n, s, d)"],
    "XxHash64": ["xxhash64(n, s, y)"],
    "Md5": ["md5(cast(s as binary))"],
    "Sha1": ["sha1(cast(s as binary))"],
    "Sha2": ["sha2(cast(s as binary), 256)"],
    "Crc32": ["crc32(cast(s as binary))"],
    "CreateArray": ["array(n, m, null)", "array(s, t)"],
    "CreateMap": ["map(p, s, p + 9, t)"],
    "CreateNamedStruct": ["named_struct('one', n, 'two', s)", "struct(n, d)"],
    "Size": ["size(x)", "cardinality(w)", "array_size(x)", "regexp_count(s, 'l')"],
    "ArrayContains": ["array_contains(x, p)"],
    "ElementAt": ["element_at(array(n, m), p % 2 + 1)", "element_at(map(p, s), p)"],
    "ArraysOverlap": ["arrays_overlap(x, v)"],
    "ArrayPosition": ["array_position(x, p)"],
    "ArrayMax": ["array_max(x)"],
    "ArrayMin": ["array_min(x)"],
    "ArrayDistinct": ["array_distinct(x)"],
    "ArrayUnion": ["array_union(x, v)"],
    "ArrayIntersect": ["array_intersect(x, v)"],
    "ArrayExcept": ["array_except(x, v)"],
    "ArrayRepeat": ["array_repeat(s, p)"],
    "ArrayRemove": ["array_remove(x, p)"],
    "ArrayJoin": ["array_join(w, ',')", "array_join(w, ',', '?')"],
    "Slice": ["slice(x, p, 2)"],
    "SortArray": ["sort_array(x)", "sort_array(x, false)"],
    "Flatten": ["flatten(array(x, v))"],
    "Sequence": ["sequence(1, p)", "sequence(5, p, -1)"],
    "ArraysZip": ["arrays_zip(x, v)"],
    "MapKeys": ["map_keys(map(p, s))"],
    "MapValues": ["map_values(map(p, s))"],
    "MapEntries": ["map_entries(map(p, s))"],
    "MapConcat": ["map_concat(map(p, s), map(p + 9, t))"],
    "MapFromArrays": ["map_from_arrays(array(p, 9), array(s, t))"],
    "MapFromEntries": ["map_from_entries(array(struct(p, s)))"],
    "StringToMap": ["str_to_map(u)", "str_to_map(u, ' ', ':')"],
    "GetJsonObject": ["get_json_object(j, '$.k')"],
    "ArrayTransform": ["transform(x, e -> e + n)", "transform(x, (e, i) -> e + i)"],
    "ArrayFilter": ["filter(x, e -> e > 1)", "filter(x, (e, i) -> i > 0)"],
    "ArrayExists": ["exists(x, e -> e > 4)"],
    "ArrayForAll": ["forall(x, e -> e > 1)"],
    "ArrayAggregate": ["aggregate(x, 0, (s, e) -> s + e)", "aggregate(v, 0, (s, e) -> s + e, s -> s * 10)"],
    "ZipWith": ["zip_with(x, v, (e, f) -> e * f)"],
    "MapFilter": ["map_filter(map(p, s), (k, e) -> k > 1)"],
    "TransformKeys": ["transform_keys(map(p, s), (k, e) -> k + 1)"],
    "TransformValues": ["transform_values(map(p, s), (k, e) -> e || k)"],
    "MapZipWith": ["map_zip_with(map(p, s), map(p, t), (k, e, f) -> e || f)"],
    "Cast": ["cast(n as string)", "cast(d as decimal(9, 3))", "cast(y as timestamp)", "cast(z as date)",
             "cast(n as boolean)", "cast(a as double)", "cast(z as string)", "cast(x as array<string>)"],
    "Like": ["s like '%l_o%'", "s like t || '%'", "s like '%/%%' escape '/'"],
    "StringTrim": ["trim(s)", "trim('h d' from s)", "btrim(s, 'd')"],
    "StringTrimLeft": ["ltrim(s)", "trim(leading 'h' from s)"],
    "StringTrimRight": ["rtrim(s)", "trim(trailing 'd' from s)"],
    "GetStructField": ["named_struct('one', n, 'two', s).two", "array_max(transform(x, e -> struct(e, n))).e"],
    "InSet": ["n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)"],
}  # fmt: skip

AGGREGATES: dict[str, list[str]] = {
    "Sum": ["sum(n)", "sum(a)", "sum(q)", "sum(distinct p)", "sum(n) filter (where b)"],
    "Average": ["avg(n)", "avg(a)", "avg(q)"],
    "Count": ["count(*)", "count(n)", "count(distinct p, b)", "count_if(n > 0)"],
    "Min": ["min(s)", "min(d)"],
    "Max": ["max(y)", "max(d)"],
    "StddevSamp": ["stddev(q)"],
    "StddevPop": ["stddev_pop(q)"],
    "VarianceSamp": ["variance(q)"],
    "VariancePop": ["var_pop(q)"],
    "Corr": ["corr(q, p)"],
    "CovSample": ["covar_samp(q, p)"],
    "CovPopulation": ["covar_pop(q, p)"],
    "Skewness": ["skewness(q)"],
    "Kurtosis": ["kurtosis(q)"],
    "BitAndAgg": ["bit_and(n)"],
    "BitOrAgg": ["bit_or(n)"],
    "BitXorAgg": ["bit_xor(n)"],
    "MaxBy": ["max_by(s, id)"],
    "MinBy": ["min_by(s, id)"],
    "Percentile": ["percentile(q, 0.3)", "percentile(q, 0.5, p)", "median(q)",
                   "percentile_cont(0.3) within group (order by q)"],
}  # fmt: skip

WINDOWS: dict[str, list[str]] = {
    "Rank": ["rank() over (partition by b order by p)"],
    "DenseRank": ["dense_rank() over (order by p desc)"],
    "PercentRank": ["percent_rank() over (order by p)"],
    "RowNumber": ["row_number() over (partition by b order by id)"],
    "CumeDist": ["cume_dist() over (order by p)"],
    "NTile": ["ntile(4) over (order by id)"],
    "Lag": ["lag(s) over (order by id)", "lag(n, 2, -1) over (order by id)", "lag(n) ignore nulls over (order by id)"],
    "Lead": ["lead(s) over (order by id)", "lead(n, 2, -1) over (order by id)"],
    "NthValue": ["nth_value(n, 2) over (order by id)", "nth_value(n, 2) ignore nulls over (order by id)",
                 "nth_value(n, 2) over (order by id rows between 1 preceding and 2 following)"],
}  # fmt: skip

GENERATORS: dict[str, list[str]] = {
    "Explode": ["explode(x)", "explode(map(p, s))", "explode_outer(w)"],
    "PosExplode": ["posexplode(x)", "posexplode_outer(x)"],
    "Inline": ["inline(array(struct(n, s), struct(m AS n, t AS s)))", "inline_outer(filter(array(struct(n, s)), e -> e.n > 0))"],
    "Stack": ["stack(2, n, s, m, t)"],
}  # fmt: skip

ELSEWHERE = {
    "PearsonCorrelation": "the parent of Corr, which no plan holds",
    "UnaryPositive": "the optimiser leaves it out",
    "Base64": "replaced by a call of Java, which is opaque",
    "RegExpCount": "replaced by the size of what RegExpExtractAll finds",
    "SplitPart": "replaced by StringSplitSQL, which is opaque",
}
"""Entries of the tables that no expression of these has, with the reason."""

MANY = 40
"""Expressions in one query."""


@pytest.fixture(scope="module")
def spark(spark_context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    ParquetTables.written(tmp_path_factory.mktemp("values"), {"v": VALUES}).views(session)
    return session


def classes_in(frame: DataFrame) -> set[str]:
    """Catalyst's classes in the optimised plan."""
    return set(
        str(frame._jdf.queryExecution().optimizedPlan().toJSON()).replace('"', ".").split(".")
    )


def problems(frame: DataFrame, wanted: Iterable[str], texts: list[str]) -> list[str]:
    """What the frame's recipe says otherwise than the frame. ``texts``: what its last columns were."""
    found = [f"no plan holds {name}" for name in set(wanted) - classes_in(frame)]
    recipe = recipe_of_frame(frame)
    found += recipe.opaque()
    before, after = frame.collect(), rebuild(frame.sparkSession, recipe)
    if len(before) != len(after):
        return [*found, f"{len(after)} rows"]
    if frame.columns[0] == "id":
        before, after = (sorted(rows, key=lambda row: row[0]) for rows in (before, after))
    for place, text in enumerate(texts, len(frame.columns) - len(texts)):
        values = [(one[place], other[place]) for one, other in zip(before, after, strict=True)]
        if not all(same_value(*pair) and type(pair[0]) is type(pair[1]) for pair in values):
            found.append(f"{text}: {values}")
    return found


def listed(expressions: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    return [(name, text) for name, texts in expressions.items() for text in texts]


def test_every_entry_has_an_expression() -> None:
    tables = known.OPERATORS | known.FUNCTIONS | known.HIGHER_ORDER
    missing = (set(tables) - set(SCALARS)) | (set(known.AGGREGATES) - set(AGGREGATES))
    assert missing == set(ELSEWHERE)
    assert set(known.WINDOW_FUNCTIONS) == set(WINDOWS)
    assert set(known.GENERATORS) == set(GENERATORS)


def of_many(spark: SparkSession, some: list[tuple[str, str]], source: str, first: str) -> list[str]:
    columns = ", ".join(f"{text} AS c{n}" for n, (_, text) in enumerate(some))
    frame = spark.sql(f"SELECT {first} {columns} FROM {source}")
    return problems(frame, {name for name, _ in some}, [text for _, text in some])


@pytest.mark.long
def test_functions_of_a_row(spark: SparkSession) -> None:
    every, found = listed(SCALARS), []
    for at in range(0, len(every), MANY):
        found += of_many(spark, every[at : at + MANY], "v", "id,")
    assert not "\n".join(found)


def test_aggregate_functions(spark: SparkSession) -> None:
    plain = [(name, text) for name, text in listed(AGGREGATES) if "distinct" not in text]
    other = [(name, text) for name, text in listed(AGGREGATES) if "distinct" in text]
    found = of_many(spark, plain, "v", "") + of_many(spark, other, "v", "")
    assert not found + of_many(spark, plain, "v where id < 0", "")


def test_window_functions(spark: SparkSession) -> None:
    assert not of_many(spark, listed(WINDOWS), "v", "id,")


def test_generators(spark: SparkSession) -> None:
    """Each with a column beside it that it reads, and one that it does not."""
    for name, text in listed(GENERATORS):
        frame = spark.sql(f"SELECT id, {text} FROM v")
        assert name in classes_in(frame)
        before, after = frame.collect(), rebuild(spark, recipe_of_frame(frame))
        assert sorted(repr(tuple(row)) for row in before) == sorted(
            repr(tuple(row)) for row in after
        ), text


def test_names_of_time_zones_are_opaque(spark: SparkSession) -> None:
    """What Java gives for them changes within one process (CET, then GMT+01:00)."""
    texts = (
        "date_format(z, 'HH:mm z')",
        "from_unixtime(n, 'zzzz')",
        "unix_timestamp(u, 'yyyy-MM-dd z')",
        "date_format(z, if(n > 1, 'z', 'HH'))",
    )
    for text in texts:
        assert len(recipe_of_frame(spark.sql(f"SELECT {text} AS c FROM v")).opaque()) == 1, text
    quoted = spark.sql("SELECT date_format(z, \"'at z' HH:mm 'z'\") AS c FROM v")
    assert recipe_of_frame(quoted).opaque() == []
