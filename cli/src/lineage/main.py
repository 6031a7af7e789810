"""``lineage``: capture a PySpark job, trace where rows come from and where they go.

Everything heavy is imported inside the commands that need it.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from click.core import ParameterSource

from lineage.array_commands import app as arrays_app
from lineage.background_commands import app as session_app
from lineage.bundling import app as bundle_app
from lineage.command_line import CommandLine, load_numpy
from lineage.dlq import app as dlq_app
from lineage.erasing import app as erasing_app
from lineage.options import (
    EXIT_INCOMPLETE,
    JsonOption,
    StoreOption,
    TimeoutOption,
    chosen_store,
    in_time,
    opened,
    print_json,
    reported,
    warning_if_partial,
)
from lineage.records import app as records_app
from lineage.serving import app as serving_app
from lineage.spark_options import SparkTraceOptions
from lineage.stack.commands import app as stack_app
from lineage.terminal import echo
from lineage.triple_commands import app as triples_app
from lineage_core.release import __version__
from lineage_core.tracing.budget import current_budget

if TYPE_CHECKING:
    from lineage.breakpoints import StepRecords

app = CommandLine(
    name="lineage",
    help="Record-level lineage of PySpark jobs: which input rows made an output row, and back.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(serving_app)
app.add_typer(stack_app)
app.add_typer(dlq_app)
app.add_typer(records_app)
app.add_typer(session_app)
app.add_typer(bundle_app)
app.add_typer(erasing_app)
app.add_typer(arrays_app)
app.add_typer(triples_app)

AppArgument = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="An application's id, the beginning of it, or latest.",
        show_default=False,
    ),
]
PLACES_HELP = "PATH:LINE as grep -n prints it, an item's address such as write#0#1; a whole file or folder, a split PATH@START+LENGTH, or a task NODE#PARTITION.ATTEMPT."
Places = Annotated[list[str], typer.Argument(metavar="LOCATION_OR_ADDRESS", help=PLACES_HELP)]
SomePlaces = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LOCATION_OR_ADDRESS",
        help=PLACES_HELP,
    ),
]
AppOption = Annotated[
    str,
    typer.Option(
        "--app",
        metavar="APP",
        help="This application alone, instead of all, or the latest, that fit.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit", min=0, help="Items listed for each node (default: 20; with --json all)."
    ),
]
StepOption = Annotated[bool, typer.Option("--step", help="Just one step: to the items next to it.")]
ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="NODE",
        help="To the items of a node on the way. With --engine spark: a new folder, or a URL that Spark knows, for the table.",
    ),
]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="embedded (here), or spark: traces any number of rows of an application in a lake, each by itself, and writes a table of Parquet to --to.",
    ),
]
ItemsOption = Annotated[
    Path | None,
    typer.Option(
        "--items",
        metavar="FILE",
        help="With --engine spark: also the rows of the column `item` of a Parquet or CSV file.",
    ),
]
TogetherOption = Annotated[
    bool,
    typer.Option(
        "--together",
        help="With --engine spark: each row of the answer once, and not of which of the rows it is.",
    ),
]
MostRowsOption = Annotated[
    int | None,
    typer.Option(
        "--rows",
        min=1,
        metavar="N",
        help="With --engine spark: rows that the table may have (default: 1,000,000,000).",
    ),
]

WhereOption = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Of a DataFrame's output (PLACE: its path, table or node) all rows that fulfil this, in SQL.",
    ),
]
AllJobsOption = Annotated[
    bool,
    typer.Option(
        "--all-jobs",
        help="Go on through all jobs that wrote what was read (or read what was written), to the rows that no captured job wrote.",
    ),
]
JobsOnTheWayOption = Annotated[
    bool,
    typer.Option(
        "--way",
        help="With --all-jobs: also list the rows on the way, at which one job goes on from another.",
    ),
]
PairsOption = Annotated[
    bool,
    typer.Option(
        "--pairs",
        help="Also list which of the rows were joined with each other.",
    ),
]
ByOption = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="LEVEL",
        help="List containers with their number of rows, instead of rows: split, file or dataset; task, node, application or job; or a type of containers that the program registered.",
    ),
]
AsNowOption = Annotated[
    bool,
    typer.Option(
        "--as-now",
        help="Trace DataFrames over their files as they are now, where these have changed. The answer says so.",
    ),
]

OBJECTS_COLLECTED = 50_000
"""New objects until Python looks for cycles among them. By default it does so hundreds of times while modules load, which is
a tenth of the time of a short command."""


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"lineage {__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    store: StoreOption = "",
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Record-level lineage of PySpark jobs."""
    gc.set_threshold(OBJECTS_COLLECTED)
    context.obj = {"store": store}


@app.command(
    "run",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
@reported
def run(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="The PySpark program, unchanged.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Its arguments, handed over untouched."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary at the end.")] = False,
    session: Annotated[
        bool | None,
        typer.Option(
            "--session/--no-session",
            help="Afterwards, start the session in the background that answers queries about rows of "
            "DataFrames, so that the first one need not wait for Spark. By default where stderr is a terminal.",
            show_default=False,
        ),
    ] = None,
    materialised: Annotated[
        list[str] | None,
        typer.Option(
            "--materialise",
            envvar="LINEAGE_MATERIALISE",
            metavar="OUTPUT",
            help="Afterwards, `lineage materialise` DataFrames' outputs of this path, table or node; * stands "
            "for anything; may be repeated.",
            show_envvar=False,
        ),
    ] = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Run a PySpark job as it is and capture its lineage.

    Options of lineage come before JOB. The exit code, stdout and stderr are the job's own; a
    short summary follows on stderr.
    """
    from lineage.running import run_job

    code = run_job(
        chosen_store(context, store),
        job,
        arguments or [],
        materialised=materialised or (),
        session=sys.stderr.isatty() if session is None else session,
        quiet=quiet,
        as_json=as_json,
    )
    raise typer.Exit(code)


@app.command(
    "mapreduce",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
@reported
def mapreduce(
    context: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND",
            help="What starts the job: hadoop jar hadoop-streaming.jar -input ...",
        ),
    ],
    each_line: Annotated[
        bool,
        typer.Option(
            "--each-line",
            help="Each line of the mapper is made from the line that it read last. The mapper is a Python program "
            "(-mapper 'python3 PROGRAM.py') that reads sys.stdin.",
        ),
    ] = False,
    named_keys: Annotated[
        bool,
        typer.Option(
            "--named-keys",
            help="Each line of the reducer begins with the key of the records that it is made from.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary at the end.")] = False,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Run a job of Hadoop Streaming as it is and capture its lineage.

    Options of lineage come before COMMAND. Without --each-line and --named-keys lineage is a superset. The exit code, stdout and
    stderr are the command's own; a short summary follows on stderr.
    """
    from lineage.running import run_mapreduce

    code = run_mapreduce(
        chosen_store(context, store),
        command,
        each_line=each_line,
        named_keys=named_keys,
        quiet=quiet,
        as_json=as_json,
    )
    raise typer.Exit(code)


@app.command("link")
@reported
def link(
    context: typer.Context,
    spool: Annotated[
        str,
        typer.Option(
            "--spool",
            envvar="LINEAGE_SPOOL",
            metavar="FOLDER",
            help="Where captured blocks wait (default: spool beside the store).",
            show_envvar=False,
        ),
    ] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Link and store what was captured but is not in the store yet (after a crash, say)."""
    from lineage.linking import link_spool

    link_spool(chosen_store(context, store), spool, as_json=as_json)


@app.command("send")
@reported
def send(
    spool: Annotated[
        str,
        typer.Option(
            "--spool",
            envvar="LINEAGE_SPOOL",
            metavar="FOLDER",
            help="Where lineage waits (default: spool beside the store, or .lineage/spool).",
            show_envvar=False,
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Send to Kafka what waits in the spool because Kafka was away; may be repeated.

    LINEAGE_KAFKA names Kafka. What it has acknowledged is removed from the spool. Exit code 1 when
    something is left that can't be sent.
    """
    from lineage.sending import send_spool

    send_spool(spool, as_json=as_json)


@app.command("apps")
@reported
def apps(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    search: Annotated[
        str, typer.Option("--search", metavar="TEXT", help="Part of the id or name.")
    ] = "",
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset",
            metavar="TEXT",
            help="Part of the name of a dataset, file or table that it read or wrote.",
        ),
    ] = "",
    call_site: Annotated[
        str,
        typer.Option(
            "--call-site", metavar="TEXT", help="Part of where its code is, such as job.py:12."
        ),
    ] = "",
    column: Annotated[
        str,
        typer.Option(
            "--column", metavar="NAME", help="A column of a DataFrame that it read or wrote."
        ),
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="TIME",
            help="It began then or later: 2026-11-26, 2026-11-26T04:00 (here), or with a zone.",
        ),
    ] = "",
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="It began then or earlier.")
    ] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List the applications of the store, the latest first: all, or those for which all of the options hold."""
    from lineage.searching import list_applications, search_of

    wanted = search_of(search, dataset, call_site, column, since, until)
    list_applications(chosen_store(context, store), wanted, as_json=as_json)


@app.command("jobs")
@reported
def jobs(
    context: typer.Context,
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The name of a job: its runs.", show_default=False)
    ] = "",
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="The first so many (default: all)."),
    ] = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List jobs, what their last runs read and wrote, and how complete the lineage of these is.

    A job is all applications of one name. With JOB: its runs, the latest first.
    """
    from lineage.job_tables import show_jobs, show_runs

    with opened(chosen_store(context, store)) as access:
        if job:
            show_runs(access.runs(job, limit), as_json=as_json)
        else:
            show_jobs(access.jobs(limit), as_json=as_json)


@app.command("datasets")
@reported
def datasets(
    context: typer.Context,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Part of a dataset's name, or of NAME@VERSION of a table. All of a name, or a path of this machine: the runs that read and wrote it.",
            show_default=False,
        ),
    ] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List datasets, and which jobs write and read them.

    Datasets are named as OpenLineage names them: a namespace such as file or s3://bucket, and a name.
    """
    from lineage.job_tables import dataset_named, show_dataset_runs, show_datasets

    with opened(chosen_store(context, store)) as access:
        found = access.datasets(text)
        name = dataset_named(access, found.items, text) if text else None
        if name is None:
            show_datasets(found, as_json=as_json)
        else:
            show_dataset_runs(*name, access.dataset_runs(*name), as_json=as_json)


@app.command("graph")
@reported
def graph(
    context: typer.Context,
    name: AppArgument = "latest",
    jobs: Annotated[
        bool,
        typer.Option(
            "--jobs",
            help="The graph of all jobs and datasets. NAME: what leads to a job or dataset, and what it leads to.",
        ),
    ] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart.")] = False,
    unfold: Annotated[
        bool, typer.Option("--unfold", help="Each node by itself, also those made in a loop.")
    ] = False,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show the nodes of an application, their counts and whether they are exact; or all jobs and datasets.

    Nodes that a loop made over and over are one: reduceByKey x10.
    """
    from lineage.job_tables import print_job_graph
    from lineage.tables import graph_json, show_graph
    from lineage_core.tracing.folding import fold_by_call, fold_each
    from lineage_query.flowchart import mermaid_text

    if jobs:
        if unfold:
            raise typer.BadParameter(
                "--unfold is for the nodes of an application: leave out --jobs"
            )
        with opened(chosen_store(context, store)) as access:
            around = "" if name == "latest" else name
            print_job_graph(access, around, mermaid=mermaid, as_json=as_json)
        return
    with opened(chosen_store(context, store)) as access:
        app_id, nodes, links = access.graph(name)
    folds = fold_each(nodes) if unfold else fold_by_call(nodes)
    if as_json:
        print_json(graph_json(app_id, nodes, links))
    elif mermaid:
        echo(mermaid_text(folds, links), nl=False)
    else:
        show_graph(folds, links)


@app.command("back")
@reported
def back(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    places: SomePlaces = None,
    application: AppOption = "",
    limit: LimitOption = None,
    step: StepOption = False,
    to: ToOption = "",
    where: WhereOption = "",
    all_jobs: AllJobsOption = False,
    way: JobsOnTheWayOption = False,
    by: ByOption = "row",
    pairs: PairsOption = False,
    as_now: AsNowOption = False,
    engine: EngineOption = "embedded",
    items: ItemsOption = None,
    together: TogetherOption = False,
    most_rows: MostRowsOption = None,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show which input rows made a row: lineage back out/part-00003:2."""
    load_numpy()
    url = chosen_store(context, store)
    spark = SparkTraceOptions(engine, items, together=together, most_rows=most_rows)
    if spark.is_chosen(places):
        from lineage.lake_traces import trace_by_spark

        spark.refuse(
            {
                "--limit": limit is not None,
                "--step": step,
                "--where": bool(where),
                "--way": way,
                "--by": by != "row",
                "--pairs": pairs,
                "--as-now": as_now,
            }
        )
        with in_time(timeout):
            trace_by_spark(
                url,
                "backward",
                places or (),
                application,
                to,
                spark,
                all_jobs=all_jobs,
                as_json=as_json,
            )
        return
    from lineage.tracing import ask, question_of

    question = question_of(
        "backward",
        places or (),
        application,
        limit,
        step=step,
        to=to,
        as_json=as_json,
        as_now=as_now,
        where=where,
        all_jobs=all_jobs,
        way=way,
        by=by,
    )
    with in_time(timeout):
        ask(url, question, as_json=as_json, pairs=pairs)


@app.command("forward")
@reported
def forward(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    places: SomePlaces = None,
    application: AppOption = "",
    limit: LimitOption = None,
    step: StepOption = False,
    to: ToOption = "",
    all_jobs: AllJobsOption = False,
    way: JobsOnTheWayOption = False,
    by: ByOption = "row",
    as_now: AsNowOption = False,
    engine: EngineOption = "embedded",
    items: ItemsOption = None,
    together: TogetherOption = False,
    most_rows: MostRowsOption = None,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show which output rows a row went into: lineage forward flights.csv:1187."""
    load_numpy()
    url = chosen_store(context, store)
    spark = SparkTraceOptions(engine, items, together=together, most_rows=most_rows)
    if spark.is_chosen(places):
        from lineage.lake_traces import trace_by_spark

        spark.refuse(
            {
                "--limit": limit is not None,
                "--step": step,
                "--way": way,
                "--by": by != "row",
                "--as-now": as_now,
            }
        )
        with in_time(timeout):
            trace_by_spark(
                url,
                "forward",
                places or (),
                application,
                to,
                spark,
                all_jobs=all_jobs,
                as_json=as_json,
            )
        return
    from lineage.tracing import ask, question_of

    question = question_of(
        "forward",
        places or (),
        application,
        limit,
        step=step,
        to=to,
        as_json=as_json,
        as_now=as_now,
        all_jobs=all_jobs,
        way=way,
        by=by,
    )
    with in_time(timeout):
        ask(url, question, as_json=as_json)


@app.command("diff")
@reported
def diff(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    place: Annotated[
        str, typer.Argument(metavar="PLACE", help="A row, as `lineage back` takes it.")
    ],
    other: Annotated[
        str,
        typer.Argument(
            metavar="[OTHER]",
            help="Another one. With --runs: the row of the second run, where that is not PLACE.",
            show_default=False,
        ),
    ] = "",
    direction: Annotated[
        str, typer.Option("--direction", metavar="back|forward", help="Which way to trace.")
    ] = "back",
    runs: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--runs",
            metavar="APP APP",
            help="Compare two runs of a job: the row in the first with the row in the second.",
            show_default=False,
        ),
    ] = None,
    application: AppOption = "",
    limit: LimitOption = None,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show what the trace of one row has that of another has not, and the reverse: lineage diff out/part-00003:2 out/part-00003:5.

    Rows of RDDs of one application are compared. With --runs, rows of RDDs and of DataFrames in two runs of a job:
    lineage diff 'out#city=Oslo' --runs APP1 APP2. Rows of sources of which both runs read the same version are compared by
    their places, others by their texts; rows whose texts are not known any more are listed as "not known".
    """
    from lineage.comparing import diff as compare_traces
    from lineage.comparing import diff_runs
    from lineage.exporting import direction_of

    url = chosen_store(context, store)
    if runs is None and not other:
        raise typer.BadParameter("give another row (OTHER), or two runs (--runs)")
    if runs is not None and application:
        raise typer.BadParameter("--runs names the applications: leave out --app")
    with in_time(timeout):
        if runs is not None:
            places = place, other or place
            diff_runs(url, direction_of(direction), places, runs, limit, as_json=as_json)
            return
        compare_traces(
            url, direction_of(direction), (place, other), application, limit, as_json=as_json
        )


@app.command("suspects")
@reported
def suspects(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    application: Annotated[
        str,
        typer.Argument(
            metavar="APP",
            help="An application (default: of the rows, or the latest).",
            show_default=False,
        ),
    ] = "",
    bad: Annotated[
        list[str] | None,
        typer.Option(
            "--bad",
            metavar="ROW",
            help="A wrong row of an output, as `lineage back` takes it; may be repeated.",
        ),
    ] = None,
    good: Annotated[
        list[str] | None,
        typer.Option("--good", metavar="ROW", help="A row that is right; may be repeated."),
    ] = None,
    formula: Annotated[
        str,
        typer.Option(
            "--formula", metavar="ochiai|tarantula|dstar", help="What suspects are ranked by."
        ),
    ] = "ochiai",
    tasks: Annotated[
        bool,
        typer.Option(
            "--tasks/--no-tasks",
            help="Rank tasks, too, which reads all lineage of the application.",
        ),
    ] = True,
    influence: Annotated[
        bool,
        typer.Option(
            "--influence",
            help="What one bad row would be without each of the rows that it was made from.",
        ),
    ] = False,
    program: Annotated[
        str,
        typer.Option(
            "--program",
            metavar="COMMAND",
            help="With --influence, of RDDs: the job's program and its arguments, which is run again without each of these rows: 'job.py in.txt out'.",
        ),
    ] = "",
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, max=1_000, help="Suspects of each kind that are listed."),
    ] = 50,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Rank what may be to blame for wrong rows: lineage suspects --bad out/part-00003:2 --bad out/part-00003:5 --good out/part-00003:1.

    Rows of sources and tasks come first that went into most of the bad rows, and into few of the good ones. Without rows: tasks whose work differs from
    that of the others, and keys of unusually many or few records. Tasks and keys are of RDDs alone.
    """
    from lineage.suspecting import formula_of
    from lineage.suspecting import suspects as rank
    from lineage_query.suspects.query import SuspectsQuery

    url = chosen_store(context, store)
    query = SuspectsQuery(
        tuple(dict.fromkeys(bad or ())),
        tuple(dict.fromkeys(good or ())),
        application or None,
        limit,
        formula_of(formula),
        tasks,
    )
    if program:
        if not influence:
            raise typer.BadParameter("--program is run for --influence")
        from lineage.program_influence import program_influence

        # The time ends runs themselves.
        program_influence(url, query, program, timeout, as_json=as_json)
        return
    with in_time(timeout):
        if influence:
            from lineage.influencing import influence as show_influence

            show_influence(url, query, as_json=as_json)
        else:
            rank(url, query, as_json=as_json)


@app.command("quarantine")
@reported
def quarantine(
    context: typer.Context,
    application: Annotated[
        str,
        typer.Argument(metavar="APP", help="Its id, a part of it, or latest.", show_default=True),
    ] = "latest",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="Records that are listed.")
    ] = 20,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List records that a job set aside as a function failed on them (LINEAGE_QUARANTINE), and the rows that they were made from."""
    from lineage.quarantine import list_set_aside

    url = chosen_store(context, store)
    with in_time(timeout):
        list_set_aside(url, application, limit, as_json=as_json)


@app.command("watch")
@reported
def watch(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    node: Annotated[
        str,
        typer.Argument(
            metavar="[NODE]",
            help="Operators: a node's number, an operator's name (map), or a line of the program (job.py:14). Without it they are listed.",
            show_default=False,
        ),
    ] = "",
    condition: Annotated[
        str,
        typer.Argument(
            metavar="[CONDITION]",
            help="Of records: record[1] > 100 and record[0] in ('a', 'b'); len(record) > 3; record['city'] is None. Of rows of DataFrames: amount > 100 AND city IN ('Oslo', 'Bergen').",
            show_default=False,
        ),
    ] = "",
    must: Annotated[
        str,
        typer.Option(
            "--must",
            metavar="CONDITION",
            help="Print records that do NOT fulfil this condition; exit code 1 where there are some.",
            show_default=False,
        ),
    ] = "",
    slower_than: Annotated[
        str,
        typer.Option(
            "--slower-than",
            metavar="DURATION",
            help="Print records with which the operator's function takes as long: 200ms, 1.5s, 2min. Of DataFrames calls of Python functions.",
            show_default=False,
        ),
    ] = "",
    latency: Annotated[
        bool,
        typer.Option(
            "--latency",
            help="Time the operator's function: which tasks are slow, and with which records. Of DataFrames the tasks of an action, and its Python functions.",
        ),
    ] = False,
    application: AppOption = "",
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, max=10_000, help="Records (or tasks) after which it stops."),
    ] = 1_000,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Watch a running job: print the records of an operator that fulfil a condition as they pass, and the rows they were made from; or those that break a condition, or that are slow; or rank its tasks by their time.

    Of jobs that were started with LINEAGE_WATCH=true, of DataFrames with LINEAGE_WATCH_FRAMES=true. Ctrl-C ends it; the job goes on. With --json a line for each.
    """
    from lineage.watching import list_operators, watch_records
    from lineage_query.watching.requests import requested_watch

    # Given is what is empty, too: the variable of a script may be.
    given = map(context.get_parameter_source, ("condition", "must", "slower_than", "latency"))
    if not node and ParameterSource.COMMANDLINE not in given:
        list_operators(chosen_store(context, store), application, as_json=as_json)
        return
    request = requested_watch(node, condition, must, slower_than, limit, latency=latency)
    if not watch_records(chosen_store(context, store), request, application, as_json=as_json):
        raise typer.Exit(EXIT_INCOMPLETE)


@app.command("follow")
@reported
def follow(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A row of a file, PATH:LINE as grep -n prints it or PATH#ROW, a whole file, or a record of Kafka, TOPIC[PARTITION]@OFFSET. "
            "With --where a folder, a file or kafka:TOPIC.",
            show_default=False,
        ),
    ],
    where: Annotated[
        str,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help='Follow all rows of SOURCE that fulfil a condition on its columns, as they come: "user = 42".',
            show_default=False,
        ),
    ] = "",
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            min=0,
            metavar="SECONDS",
            help="How long to wait for a query that may read it, or that is started again.",
        ),
    ] = 30.0,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Follow a row through streaming queries: print what each batch makes of it, and end when nothing more can come.

    Of jobs of this machine that run under capture, and of those that send their lineage to the store through Kafka, to Neo4j or to a lake. Ctrl-C ends it; the queries go on. With --json a line for each event.
    """
    load_numpy()
    from lineage.following import follow_rows

    url = chosen_store(context, store)
    if not follow_rows(url, source, wait, where=where, as_json=as_json):
        raise typer.Exit(EXIT_INCOMPLETE)


@app.command("replay")
@reported
def replay(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROW",
            help="Rows of one output, as `lineage back` takes them.",
            show_default=False,
        ),
    ] = None,
    excluded: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="ROW",
            help="A row of a source that is left out, as `lineage forward` takes it; may be repeated.",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="FOLDER", help="Write the rows of the replay to this new folder, too."
        ),
    ] = "",
    program: Annotated[
        str,
        typer.Option(
            "--program",
            metavar="COMMAND",
            help="Rows of RDDs: the job's program and its arguments, which is run again: 'job.py in.txt out'.",
            show_default=False,
        ),
    ] = "",
    quarantined: Annotated[
        bool,
        typer.Option(
            "--quarantined",
            help="Without ROW: compute outputs of DataFrames, or by --program run a program of RDDs, over all rows, with those repaired that the records were made from which the job set aside.",
        ),
    ] = False,
    repair: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="FILE.py:FUNCTION",
            help="With --quarantined: gets a row of a source, and gives the one to be read in its place; None: none.",
            show_default=False,
        ),
    ] = "",
    application: AppOption = "",
    where: WhereOption = "",
    all_jobs: Annotated[
        bool,
        typer.Option(
            "--all-jobs",
            help="Of DataFrames, also replay the jobs that wrote what was read: --exclude takes rows of their sources, too.",
        ),
    ] = False,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Run a job again on the rows that made a row, or without some: lineage replay out/part-0.parquet#1 --exclude in.csv:4.

    Rows of DataFrames are computed by their recipe. For rows of RDDs the program is run again, by --program; what it does besides
    reading and writing files through Spark, it does again.

    With --quarantined all rows are read, those repaired that the job failed on: lineage replay --quarantined
    --with repair.py:repaired --to mended, for RDDs with --program 'job.py in.txt out'.

    The job's own output is not touched. Exit code 1: on the rows that made it, a row does not come out as it was.
    """
    from lineage.repairing import repair_frames
    from lineage.replaying import replay as replay_rows
    from lineage.rerunning import repair_program, replay_program

    url = chosen_store(context, store)
    if quarantined:
        if places or excluded or where or all_jobs or not (repair and to):
            raise typer.BadParameter(
                "--quarantined takes --with and --to, --program where RDDs set records aside, and no rows"
            )
        with in_time(timeout):
            if program:
                repair_program(url, program, repair, to, application, as_json=as_json)
            else:
                repair_frames(url, repair, to, application, as_json=as_json)
        return
    if not places or repair:
        raise typer.BadParameter(
            "--with goes with --quarantined"
            if repair
            else "name the rows to replay, or --quarantined"
        )
    with in_time(timeout):
        if program:
            if where or all_jobs:
                raise typer.BadParameter(
                    "--where and --all-jobs are of DataFrames, --program runs RDDs"
                )
            replay_program(url, places, excluded or [], program, to, application, as_json=as_json)
            return
        options = (to, application, where)
        replay_rows(url, places, excluded or [], *options, all_jobs=all_jobs, as_json=as_json)


@app.command("step")
@reported
def step(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    place: Annotated[
        str,
        typer.Argument(
            metavar="ROW",
            help="A row of an output, as `lineage back` takes it.",
            show_default=False,
        ),
    ],
    program: Annotated[
        str,
        typer.Option(
            "--program",
            metavar="COMMAND",
            help="Of a row that an RDD was saved to, the job's program and its arguments, which is run again: 'job.py in.txt out'.",
        ),
    ] = "",
    at: Annotated[
        str,
        typer.Option(
            "--at", metavar="N|OPERATOR", help="Show this step alone, or those of this operator."
        ),
    ] = "",
    when: Annotated[
        str,
        typer.Option(
            "--when",
            metavar="CONDITION",
            help="Stop at the first step with a record that fulfils a condition, as `lineage watch` takes it: 'record[1] > 100'.",
        ),
    ] = "",
    until: Annotated[
        str,
        typer.Option(
            "--until",
            metavar="N|OPERATOR",
            help="Stop at this step, or at the first of this operator (also of a line: job.py:14), and on a terminal leave its records in a Python prompt.",
        ),
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Most values of a step.")
    ] = 20,
    one_by_one: Annotated[
        bool,
        typer.Option(
            "--one-by-one", help="Go through the steps one by one, forward and back, by keys."
        ),
    ] = False,
    application: AppOption = "",
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show what each operator gave on the way to a row: lineage step out/part-00000.snappy.parquet#3.

    The plan of a DataFrame is computed again on the rows that the row is made from, operator by operator. A program of RDDs is run again on them
    (--program 'job.py in.txt out'), and keeps the values between its operators. What it does besides
    reading and writing files through Spark, it does again; the job's own output is not touched.
    """
    from lineage.breakpoints import Breakpoint, is_prompted, prompt

    if one_by_one and as_json:
        raise typer.BadParameter("--one-by-one is for people, --json for tools")
    url, breakpoint = chosen_store(context, store), Breakpoint(when, until, one_by_one)
    stopped_at: StepRecords[Any] | None
    with in_time(timeout):
        if program:
            from lineage.stepping import step_through

            stopped_at = step_through(
                url, place, program, at, breakpoint, application, limit, as_json=as_json
            )
        else:
            from lineage.plan_stepping import step_through_plan

            stopped_at = step_through_plan(
                url, place, at, breakpoint, application, limit, as_json=as_json
            )
    if until and stopped_at is not None and not as_json and is_prompted():
        prompt(stopped_at)


@app.command("sift")
@reported
def sift(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    place: Annotated[
        str,
        typer.Argument(
            metavar="[OUTPUT_OR_ROW]",
            help="An output (its path, table or node), or one of its rows; with --fails-with also an application, or nothing.",
            show_default=False,
        ),
    ] = "",
    test: Annotated[
        str,
        typer.Option(
            "--test",
            metavar="FILE.py:FUNCTION",
            help="Gets a row, as a dictionary (with --program: its text); fails by an assertion or by returning False.",
            show_default=False,
        ),
    ] = "",
    fails_with: Annotated[
        str,
        typer.Option(
            "--fails-with",
            metavar="ERROR",
            help="Instead of a test: what failed with this error, by its type (ValueError), or by a part of what it says: an action on "
            "DataFrames, or with --program the program.",
            show_default=False,
        ),
    ] = "",
    program: Annotated[
        str,
        typer.Option(
            "--program",
            metavar="COMMAND",
            help="Of RDDs: the job's program and its arguments, which is run again: 'job.py in.txt out'.",
            show_default=False,
        ),
    ] = "",
    application: AppOption = "",
    where: WhereOption = "",
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs", min=1, metavar="N", help="Stop after so many runs (default: never)."
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=0.001, metavar="SECONDS", help="Stop after so long (default: never)."
        ),
    ] = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find the smallest set of input rows that still fails: lineage sift totals --test checks.py:plausible.

    Rows of DataFrames are computed by their recipe. For RDDs the program is run again on parts of its input, many times in one Spark;
    what it does besides reading and writing files through Spark, it does again. Where a program fails as a whole: lineage sift
    --program 'job.py in.txt out' --fails-with ValueError. An action on DataFrames that failed needs no program: lineage sift --fails-with
    NumberFormatException.

    Only rows that the failing row is made from, or that the task died on, are searched; where the program does not fail on these alone, all rows.
    Of several rows of an output that fail, the one that shares input rows with most others is searched, and what they share is tried first.
    Stopped (also by Ctrl-C), it prints the best so far, with exit code 1.
    """
    if bool(test) == bool(fails_with):
        raise typer.BadParameter("name what fails: --test or --fails-with, one of both")
    if program and where:
        raise typer.BadParameter("--where chooses rows of DataFrames, --program runs RDDs")
    if fails_with and where:
        raise typer.BadParameter("--where chooses rows of an output: what failed has none")
    if test and not place:
        raise typer.BadParameter("name the output, or one of its rows")
    from lineage.program_sifting import FailureSought, sift_program
    from lineage.sifting import sift_rows

    url = chosen_store(context, store)
    if program:
        sift_program(
            *(url, place, program, FailureSought(test, fails_with), application),
            runs_max=runs,
            timeout_s=timeout,
            as_json=as_json,
        )
        return
    if fails_with:
        from lineage.failed_frames import sift_failed_action

        sift_failed_action(
            *(url, place, fails_with, application),
            runs_max=runs,
            timeout_s=timeout,
            as_json=as_json,
        )
        return
    sift_rows(
        *(url, place, test, application, where),
        runs_max=runs,
        timeout_s=timeout,
        as_json=as_json,
    )


@app.command("export")
@reported
def export(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    places: Places,
    direction: Annotated[
        str, typer.Option("--direction", metavar="back|forward", help="Which way to trace.")
    ] = "back",
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="csv, arrow, parquet, prov, graphml or mermaid (default: as FILE ends; csv where it has no ending).",
        ),
    ] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to (default: stdout).")
    ] = "-",
    application: AppOption = "",
    way: Annotated[
        bool, typer.Option("--way", help="Tables: also the start rows and items in between.")
    ] = False,
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="With what rows look like.")
    ] = True,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, help="Most items in prov and graphml (default: 10,000); no others."
        ),
    ] = None,
    step: StepOption = False,
    to: ToOption = "",
    where: WhereOption = "",
    all_jobs: AllJobsOption = False,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Trace rows and write what was found to a file: lineage export out/part-00003:2 -o rows.csv.

    csv, arrow and parquet hold any number of items; prov and graphml say what was made from what.
    """
    from lineage.exporting import ExportRequest, export_trace
    from lineage_query.exports import ExportOptions

    request = ExportRequest(
        places, direction, file_format, output, application, step, to, where, all_jobs
    )
    options = ExportOptions(in_between=way, texts=texts)
    if limit is not None:
        options = ExportOptions(in_between=way, texts=texts, items_max=limit)
    with in_time(timeout):
        export_trace(chosen_store(context, store), request, options, as_json=as_json)


@app.command("openlineage")
@reported
def openlineage(
    context: typer.Context,
    name: AppArgument = "latest",
    url: Annotated[
        str,
        typer.Option(
            "--url",
            envvar="LINEAGE_OPENLINEAGE_URL",
            metavar="URL",
            help="An OpenLineage backend; with a path it is the endpoint itself.",
            show_envvar=False,
        ),
    ] = "",
    file: Annotated[
        str,
        typer.Option(
            "--file", metavar="FILE", help="Add the events to a file instead (- for stdout)."
        ),
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            envvar="LINEAGE_OPENLINEAGE_NAMESPACE",
            metavar="NAME",
            help="Of the job (default: lineage-master).",
            show_envvar=False,
        ),
    ] = "",
    link: Annotated[
        str,
        typer.Option(
            "--link",
            envvar="LINEAGE_OPENLINEAGE_LINK",
            metavar="URL",
            help="Where people look at lineage: the application's id is put behind it.",
            show_envvar=False,
        ),
    ] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Send a run to OpenLineage: what it read and wrote, and whether its lineage is complete.

    A START event and COMPLETE, FAIL or ABORT. Sending twice is the same run.
    """
    from lineage.openlineage_events import tell_run

    tell_run(
        chosen_store(context, store),
        name,
        url=url,
        file=file,
        namespace=namespace,
        link=link,
        as_json=as_json,
    )


@app.command("verify")
@reported
def verify(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    name: AppArgument = "latest",
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Until the verdict is final: all is there, or never will."),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="The longest wait.")
    ] = 600.0,
    received_only: Annotated[
        bool,
        typer.Option(
            "--received-only",
            help="Only whether all was received, not whether rows can be traced: flows of a lake are not read.",
        ),
    ] = False,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Trace some rows of each DataFrame's output, by Spark."),
    ] = False,
    probe_rows: Annotated[
        int, typer.Option("--probe-rows", min=1, metavar="N", help="How many rows of each.")
    ] = 3,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Say whether all lineage is complete, and whether rows of all captured outputs can be traced.

    Of the latest run of a program: of all applications that it captured. Of APP: of that one. Exit
    code 1 when either is not so. An answer that may name more rows than were used is an answer.
    """
    from lineage.verdicts import (
        LATEST,
        Looking,
        earlier_verdicts,
        run_json,
        show_earlier,
        show_verdict,
    )

    with opened(chosen_store(context, store)) as access:
        if wait:
            from lineage.waiting import awaited

            app_id, verdict = awaited(access, name, timeout, as_json=as_json)
        else:
            app_id = access.find(name)
            verdict = access.verdict(app_id)
        looking = Looking(access, received_only, probe_rows if probe else None)
        verdict = looking.further(app_id, verdict)
        earlier = dict(earlier_verdicts(looking, verdict) if name == LATEST else ())
    if as_json:
        print_json(run_json(app_id, verdict, earlier))
    else:
        for entry in earlier.items():
            show_earlier(*entry)
        show_verdict(app_id, verdict)
    every = (verdict, *earlier.values())
    if not all(checked is not None and looking.is_right(checked) for checked in every):
        raise typer.Exit(EXIT_INCOMPLETE)


@app.command("materialise")
@reported
def materialise(
    context: typer.Context,
    name: AppArgument = "latest",
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="OUTPUT",
            help="Just this output: its path, table or node, with * for anything; may be repeated (default: all "
            "with files).",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Replace what was materialised before.")
    ] = False,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Keep the lineage of all rows of DataFrames' outputs: traces of them then take milliseconds.

    Spark runs each output's query once more, rewritten. What it finds is kept as an application of its own,
    APP.rows; `lineage rm` removes it.
    """
    from lineage.materialising import show_materialised

    show_materialised(chosen_store(context, store), name, nodes or [], again=again, as_json=as_json)


@app.command("doctor")
@reported
def doctor(
    context: typer.Context,
    job: Annotated[
        Path | None,
        typer.Argument(
            metavar="[JOB]",
            help="A program: say what lineage would have of it.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Say whether this machine can capture, store and trace lineage, and how to mend what is wrong.

    Python, Spark, Java, settings, the store, disks, and the servers that the environment names. Nothing is
    changed, and JOB is not run. Exit code 1: something does not work.
    """
    from lineage.doctor import examine, has_problem, show, to_json

    findings = examine(chosen_store(context, store), job)
    if as_json:
        print_json(to_json(findings))
    else:
        show(findings)
    if has_problem(findings):
        raise typer.Exit(EXIT_INCOMPLETE)


@app.command("dump")
@reported
def dump(
    context: typer.Context,
    name: AppArgument = "latest",
    timeout: TimeoutOption = None,
    store: StoreOption = "",
) -> None:
    """Print all lineage of an application, one JSON object a line, the same from every store."""
    with in_time(timeout), opened(chosen_store(context, store)) as access, warning_if_partial():
        for line in access.dump(name):
            current_budget().check()
            echo(line)


@app.command("archive")
@reported
def archive(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[APP]...", help="Applications, as `lineage apps` lists."),
    ] = None,
    lake: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="LAKE",
            help="The lake, made if it is not there: lake:PATH or lake:s3://BUCKET/FOLDER "
            "(default: the one behind the store, with --store STORE,lake:PATH).",
            show_default=False,
        ),
    ] = "",
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="All that ended so long ago: 36h, 30d, 4w."
        ),
    ] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Move applications into a lake: copied, compared, and only then deleted where they were.

    What was interrupted goes on when the command is given again.
    """
    from lineage.lakes import archive

    archive(chosen_store(context, store), names or [], older_than, lake, as_json=as_json)


@app.command("compact")
@reported
def compact(
    context: typer.Context,
    kept_hours: Annotated[
        int,
        typer.Option(
            "--keep-hours",
            min=1,
            metavar="HOURS",
            help="How long files that were replaced are kept for those who read them.",
        ),
    ] = 168,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Merge the small files of a lake, and delete old ones; others may read and write meanwhile."""
    from lineage.lakes import compact_lake

    compact_lake(chosen_store(context, store), kept_hours, as_json=as_json)


@app.command("expire")
@reported
def expire(
    context: typer.Context,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="All that ended so long ago: 36h, 365d, 52w."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
    ] = False,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Remove applications that ended long ago, from the store and the lake behind it.

    Those that run are kept. What was interrupted goes on when the command is given again.
    """
    from lineage.expiring import expire

    expire(chosen_store(context, store), older_than, dry_run=dry_run, as_json=as_json)


@app.command("rm")
@reported
def rm(
    context: typer.Context,
    names: Annotated[
        list[str], typer.Argument(metavar="APP", help="Applications, as `lineage apps` lists.")
    ],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Delete all lineage of an application, materialised lineage too (its files stay as they are)."""
    with opened(chosen_store(context, store)) as access:
        app_ids = list(dict.fromkeys(access.find(name) for name in names))
        # An application takes its materialised lineage along, which may be named, too.
        for app_id in sorted(app_ids, key=len, reverse=True):
            access.delete(app_id)
    if as_json:
        print_json({"removed": app_ids})
    else:
        echo("\n".join(f"removed {app_id}" for app_id in app_ids))
