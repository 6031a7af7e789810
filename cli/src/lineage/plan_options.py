"""The options that say which rows a plan is about: those of `lineage erase`, whatever it does, and of `lineage access`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from lineage_query.erasure.finding import SubjectQuery

ROW_DIGITS_MAX = 18

SourceOption = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="PATH",
        help="The file, folder or table (by its folder, or the name that a captured program gave it) that the rows are in.",
        show_default=False,
    ),
]
WhereOption = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help='Which rows: columns compared with constants, by AND, OR, NOT, IN, BETWEEN and IS NULL: "id = 42".',
        show_default=False,
    ),
]
RowsOption = Annotated[
    str,
    typer.Option(
        "--rows",
        metavar="N,...",
        help="Which rows: lines of a file from 1, records of Parquet from 0.",
        show_default=False,
    ),
]
SubjectsOption = Annotated[
    Path | None,
    typer.Option(
        "--subjects",
        metavar="FILE.csv",
        help="Which rows: those with the values of a line of this file, whose header names columns of the source.",
        show_default=False,
    ),
]
ExpectOption = Annotated[
    int | None,
    typer.Option(
        "--expect",
        min=1,
        metavar="N",
        help="Refuse unless just so many rows are found.",
        show_default=False,
    ),
]
IdentityOption = Annotated[
    list[str] | None,
    typer.Option(
        "--identity",
        metavar="COLUMN",
        help="Refuse unless all rows have one value in this column; may be repeated.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="csv|json|text|parquet",
        help="Of the source (default: by its name).",
        show_default=False,
    ),
]
ColumnsOption = Annotated[
    str,
    typer.Option(
        "--columns", metavar="A,B,...", help="Columns of CSV without a header.", show_default=False
    ),
]
SeparatorOption = Annotated[
    str,
    typer.Option(
        "--separator", metavar="SIGN", help="Of CSV (default: a comma).", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Which rows of a source a plan is about, and how the source is read. The fields are options of commands, by these names."""

    source: SourceOption
    where: WhereOption = ""
    rows: RowsOption = ""
    subjects: SubjectsOption = None
    expect: ExpectOption = None
    identity: IdentityOption = None
    format_name: FormatOption = ""
    columns: ColumnsOption = ""
    separator: SeparatorOption = ""

    def query(self) -> SubjectQuery:
        """The query of these options.

        Raises:
            typer.BadParameter: an option has no such value.
            LineageError: the file of subjects is none.
        """
        from lineage_query.erasure.finding import SubjectQuery, Subjects
        from lineage_query.erasure.source_rows import SourceForm

        numbers = self.rows.split(",") if self.rows else []
        if not all(
            number.strip().isdecimal() and len(number) <= ROW_DIGITS_MAX for number in numbers
        ):
            raise typer.BadParameter("--rows takes numbers with commas between them")
        columns = tuple(self.columns.split(",")) if self.columns else ()
        return SubjectQuery(
            self.source,
            self.where,
            tuple(map(int, numbers)),
            Subjects() if self.subjects is None else Subjects.read(self.subjects),
            SourceForm(self.format_name, self.separator, columns),
            self.expect,
            tuple(self.identity or ()),
        )


def options_of(arguments: Mapping[str, Any]) -> PlanOptions:
    """The options of a plan among the arguments of a command."""
    names = [field.name for field in fields(PlanOptions)]
    return PlanOptions(**{name: arguments[name] for name in names if name in arguments})


def with_plan_options(command: Callable[..., None]) -> Callable[..., None]:
    """Have a command take the options of a plan one by one, of which it gets a `PlanOptions` as ``options``."""
    hints = get_type_hints(PlanOptions, include_extras=True)
    whole = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in whole.parameters.values():
        if parameter.name != "options":
            parameters.append(parameter)
            continue
        of_plan = inspect.signature(PlanOptions).parameters.values()
        parameters += (each.replace(annotation=hints[each.name]) for each in of_plan)

    @functools.wraps(command)
    def taking(**arguments: Any) -> None:
        options = options_of(arguments)
        own = {name: arguments[name] for name in arguments.keys() & whole.parameters.keys()}
        command(options=options, **own)

    taking.__signature__ = whole.replace(parameters=parameters)  # type: ignore[attr-defined]
    return taking
