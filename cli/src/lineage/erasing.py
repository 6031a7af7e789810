"""``lineage erase`` and ``lineage access``: where rows of a person went."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lineage.audited import audited
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
)
from lineage.plan_options import PlanOptions, with_plan_options
from lineage.terminal import echo

if TYPE_CHECKING:
    from lineage_query.erasure.finding import SubjectQuery
    from lineage_query.erasure.plan import Plan, Purpose

app = typer.Typer()
RESTARTS_MAX = 20
"""Times of an audit record at which an erasure was taken up again, the last ones."""

HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write a report to this file, too: one page without scripts.",
        show_default=False,
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Write it to this file as JSON.", show_default=False
    ),
]


ApplyOption = Annotated[
    Path | None,
    typer.Option(
        "--apply",
        metavar="PLAN.json",
        help="Erase what lineage itself keeps, by this plan (of --plan -o), and with the options it was made with.",
        show_default=False,
    ),
]
VerifyOption = Annotated[
    Path | None,
    typer.Option(
        "--verify",
        metavar="PLAN.json",
        help="Look for what is left of the rows of this plan, by trace and by reading; needs the options it was made with.",
        show_default=False,
    ),
]
DigestOption = Annotated[
    str,
    typer.Option(
        "--digest",
        metavar="sha256:...",
        help="Of the plan that was approved, for --apply.",
        show_default=False,
    ),
]
TablesOption = Annotated[
    bool,
    typer.Option(
        "--delete-from-tables",
        help="For --apply: delete the rows that carry the subject's from tables of Delta Lake and Iceberg on this machine, too.",
    ),
]
ListOption = Annotated[
    Path | None,
    typer.Option(
        "--list",
        metavar="FILE",
        help="For --apply: write the rows of outputs to this file, a line each: CSV where it is called .csv, else JSON.",
        show_default=False,
    ),
]


@app.command("erase")
@reported
@with_plan_options
def erase(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    options: PlanOptions,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what is to be erased; nothing is changed.")
    ] = False,
    apply: ApplyOption = None,
    digest: DigestOption = "",
    row_list: ListOption = None,
    delete_from_tables: TablesOption = False,
    verify: VerifyOption = None,
    html: HtmlOption = None,
    output: OutputOption = None,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find what is to be erased with rows of a source: lineage erase --plan --source customers.csv --where "id = 42".

    All rows of outputs of all jobs that the rows went into, told apart by whether they carry the rows or are values that others
    went into, too; and what lineage itself keeps. What the rows hold is not in the plan.

    Then erase what lineage itself keeps: lineage erase --apply plan.json --digest sha256:... --source customers.csv --where "id = 42".
    Outputs are yours: --list writes which of their rows to delete. It may be killed and run again at any time.

    At last, look for what is left: lineage erase --verify plan.json --source customers.csv --where "id = 42".

    Exit code 1: rows may be missing, and the plan says why; of --verify: something is left, or could not be looked at.
    """
    if plan + (apply is not None) + (verify is not None) != 1:
        raise typer.BadParameter(
            "nothing is erased without a plan: give --plan, or the plan's file by --apply or --verify",
            param_hint="--plan",
        )
    if apply is None and (digest or row_list or delete_from_tables):
        raise typer.BadParameter("--digest, --list and --delete-from-tables belong to --apply")
    if apply is not None and not digest:
        raise typer.BadParameter(
            "give the digest of the plan that was approved", param_hint="--digest"
        )
    if not plan and (html or output):
        raise typer.BadParameter("--html and -o belong to --plan")
    query = options.query()
    url = chosen_store(context, store)
    with in_time(timeout):
        if verify is not None:
            _verify(url, verify, query, as_json=as_json)
        elif apply is None:
            _show(_plan(url, "erase", query), html, output, as_json=as_json)
        else:
            _apply(url, apply, digest, query, row_list, tables=delete_from_tables, as_json=as_json)


@app.command("access")
@reported
@with_plan_options
def access(
    context: typer.Context,
    options: PlanOptions,
    html: HtmlOption = None,
    output: OutputOption = None,
    timeout: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Answer an access request: rows of a source and all that was made of them, with what they hold: lineage access --source customers.csv --where "id = 42".

    Rows that others went into, too, may hold data of these: they are told apart.

    Exit code 1: rows may be missing, and the answer says why.
    """
    query = options.query()
    with in_time(timeout):
        _show(_plan(chosen_store(context, store), "access", query), html, output, as_json=as_json)


def _plan(url: str, purpose: Purpose, query: SubjectQuery) -> Plan:
    command = "access" if purpose == "access" else "erase --plan"
    with audited(command, url, query) as answer, opened(url) as answering:
        plan = answering.plan(purpose, query)
        answer({"digest": plan.digest, "complete": plan.complete, "rows": len(plan.rows)})
    return plan


def _show(plan: Plan, html: Path | None, output: Path | None, *, as_json: bool) -> None:
    from lineage_query.erasure.report import html_of, lines_of

    if html is not None:
        _write(html, html_of(plan))
    if output is not None:
        _write(output, json.dumps(plan.to_json(), ensure_ascii=False, indent=2) + "\n")
    if as_json:
        print_json(plan.to_json())
    else:
        _echo_lines(lines_of(plan))
    if not plan.complete:
        raise typer.Exit(EXIT_INCOMPLETE)


def _echo_lines(lines: Iterable[str]) -> None:
    """Print lines, each as one: what comes from a source may have line breaks."""
    for line in lines:
        echo("\\n".join(line.splitlines()) if line else "")


def _apply(
    url: str,
    path: Path,
    digest: str,
    query: SubjectQuery,
    row_list: Path | None,
    *,
    tables: bool,
    as_json: bool,
) -> None:
    from lineage.access import StoredAccess
    from lineage.erasure_of_tables import deleted_rows, lines_of_tables
    from lineage.refusing_servers import refuse_server
    from lineage.store_places import store_place
    from lineage_query.erasure.applying import applied_lines, apply_plan, read_plan
    from lineage_query.erasure.named_sources import names_of_table
    from lineage_query.erasure.row_list import list_of
    from lineage_query.erasure.tables import begin_deletion, on_other_storage
    from lineage_store.url import open_store

    refuse_server(url, "what lineage keeps is erased")
    approved, place = read_plan(path, digest), store_place(url)
    deleted, elsewhere = [], {}
    with audited("erase --apply", url, query) as answer:
        with open_store(url) as store:
            access = StoredAccess(store, url)
            if tables:
                # Recipes that know the tables' names may be erased.
                begin_deletion(approved, place, partial(names_of_table, store))
            applied = apply_plan(approved, query, lambda: access.plan("erase", query), store, place)
        if tables:
            deleted, elsewhere = deleted_rows(approved, place), on_other_storage(approved)
        answer(
            {
                "digest": digest,
                "tables": [table.table for table in deleted],
                "restarted": [*applied.restarted[-RESTARTS_MAX:]],
            }
        )
    if row_list is not None:
        _write(row_list, list_of(approved, as_csv=row_list.suffix == ".csv"))
    if as_json:
        of_tables = [asdict(table) for table in deleted]
        print_json(
            applied.to_json()
            | {"tables": of_tables, "untouched_tables": elsewhere}
            | {"not_removed": approved["not_removed"]}
        )
    else:
        _echo_lines(lines_of_tables(deleted, elsewhere))
        _echo_lines(applied_lines(applied, approved, row_list))
    if not approved["complete"]:
        raise typer.Exit(EXIT_INCOMPLETE)


def _verify(url: str, path: Path, query: SubjectQuery, *, as_json: bool) -> None:
    from lineage.access import StoredAccess
    from lineage.refusing_servers import refuse_server
    from lineage_query.erasure.applying import read_plan
    from lineage_store.url import open_store

    refuse_server(url, "what is left is looked for")
    document = read_plan(path)
    with audited("erase --verify", url, query) as answer, open_store(url) as store:
        verified = StoredAccess(store, url).verify_erasure(document, query)
        answer({"digest": document["digest"], "clean": verified.clean})
    if as_json:
        print_json(verified.to_json())
    else:
        _echo_lines(verified.lines())
    if not verified.clean:
        raise typer.Exit(EXIT_INCOMPLETE)


def _write(path: Path, text: str) -> None:
    """Write a file for its user alone: it names what persons' rows went into."""
    from lineage_core.environment.private_files import private_opener

    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(
        temporary, "w", encoding="utf-8", errors="surrogatepass", opener=private_opener
    ) as file:
        file.write(text)
    temporary.replace(path)
