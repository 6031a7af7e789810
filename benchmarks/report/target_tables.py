"""The tables of figures that are to be reached, by what they are about. A table more is an entry more, and its name in page.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.report.rows import Row
from benchmarks.report.stored import at_least, at_most, grows_at_most, times, worst
from benchmarks.report.targets import OF_JOBS, Target
from benchmarks.report.triples import PUBLISHED_S

_CHAIN = {"rows": 1_000_000, "jobs": 10}
_MANY = {**_CHAIN, "applications": 10_000}
RARE = "rare words"
_DASK, _MAPREDUCE = (
    {
        "engine": engine,
        "input_bytes": lambda size: size >= 10**7 - 1,
        "text": lambda text: text != RARE,
    }
    for engine in ("dask", "mapreduce")
)
_REGISTERING = {"files": lambda files: files is not None and files >= 20}

ACROSS_JOBS = (
    Target(
        "a row back through ten jobs of a million rows, positions, median",
        "≤ 100 ms",
        at_most("chain", times("median.small.positions", 1e3), 100, **_CHAIN),
    ),
    Target(
        "the same with texts",
        "≤ 500 ms",
        at_most("chain", times("median.small.texts", 1e3), 500, **_CHAIN),
    ),
    Target(
        "the same with 10,000 more applications in the store, positions",
        "≤ 1.3 times",
        at_most("chain", "ratio.positions", 1.3, **_MANY),
    ),
    Target("the same with texts", "≤ 1.3 times", at_most("chain", "ratio.texts", 1.3, **_MANY)),
    Target(
        "registering what a job of RDDs reads and writes, share of its time",
        "≤ 0.01",
        at_most("registering", "jobs.rdd.share", 0.01, **_REGISTERING),
        "almost all of it are messages to Spark's JVM for a source, whatever the number of its files (166 then, 64 since), and each waits for "
        "its turn: the machine had ten times as many programs to run as cores, and the job reads no more than 10 MB. Twenty calls for each "
        "file were tried before, and took longer than such a job",
    ),
    Target(
        "registering what a job of DataFrames reads and writes, share of its time",
        "≤ 0.01",
        at_most("registering", "jobs.dataframe.share", 0.01, **_REGISTERING),
        "listing the folders that are read and making the messages of files, in part in the thread that records; as above",
    ),
    Target(
        "a version of a file in the store, of RDDs, bytes",
        "≤ 1,000",
        at_most("registering", "jobs.rdd.bytes_a_version", 1_000, **_REGISTERING),
    ),
    Target(
        "the same, of DataFrames",
        "≤ 1,000",
        at_most("registering", "jobs.dataframe.bytes_a_version", 1_000, **_REGISTERING),
    ),
    Target(
        "a word count of Dask, processor time captured over plain",
        "≤ 1.10",
        at_most("engines", "cpu_ratio", 1.10, **_DASK),
        "the fixed part (the libraries of the API, linking) is 1 to 2 s; of the part that grows, what is left is to sort the "
        "lines of each word, to move eight bytes an association between processes, and to write them. Lineage of bags went from "
        "lists to columns, which took the ratio from 6 to less than 1.5",
    ),
    Target(
        "a word count of Hadoop MapReduce, processor time captured over plain",
        "≤ 1.10",
        at_most("engines", "cpu_ratio", 1.10, **_MAPREDUCE),
        "a record costs some 2 µs in four places (mapper, sort, reducer, joining by key after the job; see below), and a command 1.6 s for its "
        "libraries and linking, where the plain job takes 10 µs a record. Records carried their lines through Hadoop's sort before, and were paired one by one",
    ),
    Target(
        "the store of a word count of Dask, over its output",
        "≤ 0.15",
        at_most("engines", "store_over_output", 0.15, **_DASK | {"text": RARE}),
    ),
    Target(
        "the store of a word count of MapReduce, over its output",
        "≤ 0.15",
        at_most("engines", "store_over_output", 0.15, **_MAPREDUCE | {"text": RARE}),
        "Hadoop sorts the output by key, so each of 1,166,753 words that stand once lies at a random line of 635,000: to name it takes 19.3 bits, "
        "together 2.8 MB or 0.24 of the output, and the lines of the others 0.7 MB: 0.30 at least, of which the store is 1.1 times. Dask puts words out in the order in which it meets "
        "them, where a line takes 2 bits. Less would do only for traces that read the input again. Records of a word in the same line were numbered one by one before (0.41)",
    ),
    Target(
        "lines of the adapter of Dask",
        "≤ 105",
        at_most("adapters", "lines.dask", 105),
        "the engine and its programs stay as they are, and each operator of bags and DataFrames has lineage by itself; a "
        "third carries columns of origins beside records, the others say which rows each operator uses and find rows in files",
    ),
    Target(
        "lines of the adapter of MapReduce",
        "≤ 105",
        at_most("adapters", "lines.mapreduce", 105),
        "half of them are the program that stands between Hadoop and each mapper and reducer: Streaming shows no record by itself, where Newt changed Hadoop's own classes",
    ),
    Target(
        "paired calls with tags, a second and core",
        "≥ 400,000",
        at_least("sdk", "paired.calls.calls_per_cpu_s", 400_000),
        "the time is that of Python's calls",
    ),
    Target(
        "associations of columns, a second and core",
        "≥ 5,000,000",
        at_least("sdk", "columns_per_cpu_s_min", 5_000_000),
        "that is of flows with one input each: nearly all of their time is the text of a block, 47 characters a flow, and its compression. "
        "Associations that go into columns as regions or in pairs are quicker (below)",
    ),
    Target(
        "associations of paired columns, a second and core",
        "≥ 5,000,000",
        at_least("sdk", "paired.columns.associations_per_cpu_s", 5_000_000),
    ),
    Target(
        "the graph of jobs on the page, 5,000 datasets: first view, median",
        "≤ 1,500 ms",
        at_most("job_graph", "first_view.median_ms", 1_500),
    ),
    Target(
        "the same: a click beside a node, median",
        "≤ 300 ms",
        at_most("job_graph", "growth.median_ms", 300),
    ),
)

FAULTS = (
    Target(
        "a replay of one output of a word count, share of the run's task time",
        "≤ 0.003",
        at_most("replaying", "replays.1.task_share", 0.003),
        "plain PySpark takes as much for as many tasks over that one line",
    ),
    Target(
        "the same, seconds of a session that is there",
        "≤ 2",
        at_most("replaying", "replays.1.seconds", 2),
    ),
    Target(
        "the search for a smallest failing input over the job's time, the slowest program that was run last",
        "≤ 0.62",
        at_most("sift", worst("programs", "of_job"), 0.62),
        "of the 23 s of a search (`scores`) 8 are the start of Python and Spark, 9 the trace (its pass over the file 3: a file is one task, as its rows are "
        "numbered), 4 the runs and 2 the texts of the rows: each is a query of its own, which Spark plans and compiles anew. The job takes its start, too, but one query. "
        "Before the test was pushed down the slowest took 2.0 of the job",
    ),
    Target(
        "a job that can be watched and is not, processor time over the job captured without",
        "≤ 1.05",
        at_most("watching", "allowed.cpu_ratio.median", 1.05),
        "its functions do next to nothing for a record, and records go through them in portions, each with a chain of its own",
    ),
    Target(
        "the same, a condition on each record of two operators",
        "≤ 1.05",
        at_most("watching", "condition.cpu_ratio.median", 1.05),
        "a test of a record takes longer than its function",
    ),
    Target(
        "the same, the time of two operators' records",
        "≤ 1.10",
        at_most("watching", "latency.cpu_ratio.median", 1.1),
        "two looks at the clock take longer than the function",
    ),
    Target(
        "a faulty actor among 42 by 20 bad and 20 good outputs, from magnitude 5 first in each of the runs",
        "= all",
        at_least(
            "faulty-actors",
            lambda row: min(
                _share(row.at(f"magnitudes.{magnitude}.20 bad and 20 good.first"))
                for magnitude in ("5", "10", "100", "1000")
            ),
            1,
        ),
    ),
)


_BUSY = "the machine had two to ten times as many programs to run as cores"


def _peak_of_traces(row: Row) -> float | None:
    classes = row.at("classes") or {}
    return max(
        (
            way["peak_mib"]
            for found in classes.values()
            for way in found.values()
            if "peak_mib" in way
        ),
        default=None,
    )


_CLASSES = (
    ("SC-SL", "an item of a small component", 0.1),
    ("LC-SL", "an item of a large component with a small lineage", 0.2),
    ("LC-LL", "an item of a large component with a large lineage", 0.5),
)


def _of_copies(factor: int, size: str) -> tuple[Target, ...]:
    """What is to be reached over so many copies of the workflow of `benchmarks.triples`."""
    copies = {"factor": factor}
    return (
        *(
            Target(
                f"{size}, nothing in memory, {what}, seconds, median",
                f"≤ {limit}",
                at_most("triples", f"classes.{name}.cold.median_s", limit, **copies),
                _BUSY,
            )
            for name, what, limit in _CLASSES
        ),
        Target(
            f"{size}, bytes a triple, with all indexes",
            "≤ 12",
            at_most("triples", "bytes_per_edge", 12, **copies),
        ),
        Target(
            f"{size}, the index of 1 % more, share of the processor time of all",
            "≤ 0.03",
            at_most("triples", "added.ratio", 0.03, **copies),
            "the row is from before an addition did without SciPy and pandas; its steps took 2.6 % since (see below), and the row was not made again",
        ),
        Target(
            f"{size}, memory of a process that traces, MiB",
            "≤ 1,024",
            at_most("triples", _peak_of_traces, 1_024, **copies),
        ),
        *(
            Target(
                f"{size}, by Spark, by sets, {what}, seconds",
                f"≤ {limit}",
                at_most("triples by spark", f"questions.{name}, 1 items.csprov.s", limit, **copies),
            )
            for (name, what, _), limit in zip(_CLASSES, PUBLISHED_S.values(), strict=True)
        ),
    )


_JOBS_OF_LAKES = {
    "word count": "a word count",
    "join": "a join",
    "skewed aggregation": "an aggregation with skew",
    "chain of four jobs": "a chain of four jobs",
}

LAKE = (
    *_of_copies(1, "11 million items and triples"),
    *_of_copies(9, "97 million items and triples"),
    Target(
        "97 million items and triples, the index of all, minutes of processor time",
        "≤ 60",
        at_most("triples", times("index.cpu_s", 1 / 60), 60, factor=9),
    ),
    *(
        Target(
            f"97 million items and triples over a ninth of them, nothing in memory, {what}",
            "≤ 1.3 times",
            grows_at_most(
                "triples", f"classes.{name}.cold.median_s", 1.3, {"factor": 9}, {"factor": 1}
            ),
            "nine copies were measured beside other programs, one copy on a machine that had none",
        )
        for name, what, _ in _CLASSES
    ),
    Target(
        "one, two or four writers into a lake, megabytes of columns a second of processor time, the fewest",
        "≥ 50",
        at_least("store_records", "together.mb_a_cpu_s_min", 50),
    ),
    Target(
        "the same, the fewest over the most",
        "≥ 0.9",
        at_least("store_records", "together.level", 0.9),
        "writers that share nothing but the machine, which had ten times as many programs to run as cores, differed by more in the same run (0.79); what "
        "they lose to each other are commits to one log, 14 % of the processor time of four, and 4 % of that of one",
    ),
    *(
        Target(
            f"the lineage of {what} in a lake over the same in SQLite, bytes",
            "≤ 1",
            at_most("blocks or sets", "lake_over_sqlite", 1, job=job),
        )
        for job, what in _JOBS_OF_LAKES.items()
    ),
    Target(
        "two jobs of which one is archived, a row back through both, over the slower of all hot and all cold",
        "≤ 1.3 times",
        at_most("hot-and-cold", "ratio", 1.3, rows=100_000, jobs=2),
    ),
)

ARRAYS = (
    Target(
        "astronomy by the optimiser's plan, over the run without lineage",
        "≤ 1.05",
        at_most("arrays-astronomy", "figures.run_ratio", 1.05),
        "what strategies add is within noise: it is the recording of the built-in operators: the two exposures are copied, and NumPy can't use the memory of temporary arrays again (below). "
        "Functions of a graph had copies of their operands, which was most of it; they have the steps' memory read-only now",
    ),
    Target(
        "astronomy, lineage over inputs",
        "≤ 0.05",
        at_most("arrays-astronomy", "figures.lineage_over_inputs", 0.05),
    ),
    Target(
        "astronomy, backward queries, the paper's BlackBox over the plan, means",
        "≥ 255 times",
        at_least("arrays-astronomy", "figures.backward_times", 255),
        "re-execution takes 0.1 to 0.2 s, so 255 times less is 0.6 ms in the mean. The loop over the 37 to 92 edges alone takes 0.1 to 0.4 ms of that, each mapping replaced by one that answers at once; "
        "a question about a pixel or a part takes 0.5 to 0.6 ms once asked before, and two to three times that when it is first asked of a new run. What is left are the two questions about a star, 4 ms: its cells are no box",
    ),
    Target(
        "astronomy, the longest backward query",
        "≤ 50 ms",
        at_most("arrays-astronomy", "figures.backward_ms_max", 50),
    ),
    Target(
        "built-in operators as plain NumPy code, recorded over plain",
        "≤ 1.02",
        at_most("arrays-numpy", "wall_ratio", 1.02),
        "the same code takes about as much more where it copies its inputs and names its temporary arrays by hand, so what recording itself adds is a tenth at most: see below",
    ),
    Target(
        "genomics, plans within 1 to 100 MB: a question over that of the black box, the longest",
        "≤ 2",
        at_most("arrays-genomics", "figures.slower_max", 2),
    ),
    Target(
        "genomics without a limit, backward questions, black box over the plan, mean",
        "≥ 2 times",
        at_least("arrays-genomics", "figures.backward_times", 2),
    ),
    Target(
        "the same, forward",
        "≥ 500 times",
        at_least("arrays-genomics", "figures.forward_times", 500),
        "re-execution takes 0.08 to 0.15 s, so 500 times less is 0.15 to 0.3 ms in the mean. The loop over the 15 and 32 edges alone takes 0.09 and 0.2 ms, each mapping replaced by one that answers at once; "
        "with the mappings 0.2 and 0.5 ms once asked before, and three times that when they are first asked of a new run, whose arrays have filled the processor's caches: see below",
    ),
    Target(
        "genomics without a limit, lineage, MB",
        "≤ 50",
        at_most("arrays-genomics", "figures.lineage_mb", 50),
    ),
    Target(
        "microbenchmark, our smallest encoding over the smaller one of the paper's, bytes, the worst point",
        "≤ 1",
        at_most("arrays-microbenchmark", "figures.bytes_over_paper_max", 1),
    ),
    Target(
        "the same, time to write, the quicker one of the paper's over ours",
        "≥ 5 times",
        at_least("arrays-microbenchmark", "figures.write_times_min", 5),
    ),
    Target(
        "the same, a query of 1,000 cells, backward, the longest",
        "≤ 10 ms",
        at_most("arrays-microbenchmark", "figures.backward_ms_max", 10),
    ),
    Target(
        "the same, forward, by region pairs that are stored for it",
        "≤ 10 ms",
        at_most("arrays-microbenchmark", "figures.forward_ms_max", 10),
        "each of the 1,000 cells lies in ten regions where 100,000 regions have 100 cells of 1,000,000: the answer is made of 10,000 regions",
    ),
    Target(
        "ranges of an operator of which one range can say all (element-wise, aggregation, convolution, matrix product), the most",
        "≤ 2",
        at_most("arrays-kinds", "ranges_max", 2),
    ),
    Target(
        "a range query over 10^8 associations, the longest of all kinds and both directions",
        "≤ 100 ms",
        at_most("arrays-kinds", "query_ms_max", 100, associations=10**8),
    ),
    Target(
        "the optimiser over 100 operators with 12 strategies each, median of 30 draws (in brackets the shortest and the longest)",
        "≤ 50 ms",
        at_most("arrays-solver", "solve_ms", 50, operators=100, strategies=12),
    ),
    Target(
        "questions in the quicker way at each operator, over black boxes, the worst",
        "≤ 2 times",
        at_most("arrays-query-time", "worst_over_blackbox", 2),
    ),
)

STREAMS_AND_ERASURE = (
    Target(
        "streams recorded over plain, time of a batch, median",
        "≤ 1.03",
        at_most("streaming", "batch_ratio", 1.03),
    ),
    Target(
        "by how much recording makes a batch longer, median",
        "≤ 20 ms",
        at_most("streaming", "batch_more_ms", 20),
    ),
    Target(
        "by how much the store grows with each batch of one file, bytes",
        "≤ 2,000",
        at_most("streaming", "bytes_a_batch", 2_000),
    ),
    Target(
        "a trace of a row of a stream over that of the equal batch query, median of pairs, the worse of two queries",
        "≤ 1.5",
        at_most("stream-traces", "ratio_worst", 1.5),
    ),
    Target(
        "from the commit of a batch to the row that `lineage follow` tells, median, ms",
        "≤ 1,000",
        at_most("following", "told_ms", 1_000),
    ),
    Target(
        "a plan of an erasure over 100 applications and 10 million rows, seconds",
        "≤ 30",
        at_most("erasure", "plan_s", 30, rows=10_000_000, applications=100),
    ),
)


def _share(text: str | None) -> float:
    """Of a text such as ``9/10``."""
    first, _, all_of_them = (text or "0/1").partition("/")
    return float(first) / float(all_of_them)


TABLES: Mapping[str, Sequence[Target]] = {
    "targets": OF_JOBS,
    "targets-across-jobs": ACROSS_JOBS,
    "targets-faults": FAULTS,
    "targets-lake": LAKE,
    "targets-arrays": ARRAYS,
    "targets-streams-and-erasure": STREAMS_AND_ERASURE,
}
"""By the name that page.md has for it."""
