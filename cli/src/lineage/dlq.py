"""``lineage dlq``: records that the pipeline could not use, and sending them again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lineage.options import JsonOption, print_json, reported
from lineage.terminal import echo
from lineage_core.terminal_text import plain

if TYPE_CHECKING:
    from lineage_kafka.dead_letters import DeadLetterRecord, DeadLetterTopic

PREVIEW_BYTES = 512
TEXT_PREVIEW = 4_000
"""Characters of a JSON value that are shown."""

app = typer.Typer(
    name="dlq",
    help="Dead letters: records that the pipeline could not use, with the reason.",
    no_args_is_help=True,
)
AppOption = Annotated[
    str, typer.Option("--app", metavar="APP", help="Only those of an application (its whole id).")
]


@app.command("list")
@reported
def list_letters(application: AppOption = "", as_json: JsonOption = False) -> None:
    """List the dead letters that were not replayed, the oldest first."""
    with _topic() as topic:
        dead_letters = _of(topic.unresolved(), application)
    if as_json:
        print_json([letter.to_json() for letter in dead_letters])
    elif dead_letters:
        _show_table(dead_letters)
    else:
        echo("no dead letters")


@app.command("show")
@reported
def show(
    name: Annotated[
        str, typer.Argument(metavar="OFFSET", help="As `lineage dlq list` names it, or its place.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show one dead letter: where it was, why it is here, and the beginning of what it says."""
    with _topic() as topic:
        dead_letter = topic.at(name)
    document = dead_letter.to_json() | _content(dead_letter.value or b"")
    if as_json:
        print_json(document)
        return
    for field, value in document.items():
        if field == "header":
            echo("header:\n" + json.dumps(value, indent=2))
        elif field in ("text", "hex"):
            echo(f"{field}:\n{value}")
        elif value is not None:
            echo(
                f"{field + ':':9}{_time(dead_letter.dead.at) if field == 'at' else plain(str(value))}"
            )


@app.command("replay")
@reported
def replay(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="PLACE", help="As `lineage dlq list` names them."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are listed.")] = False,
    application: AppOption = "",
    as_json: JsonOption = False,
) -> None:
    """Send dead letters back to where they belong, after the cause is fixed.

    May be repeated. A record that still can't be used becomes a dead letter again.
    """
    from lineage_kafka.dead_letters import DeadLetterError, choose_dead_letters

    if not everything and not places:
        raise DeadLetterError("say which: `lineage dlq replay --all`, or name them")
    replayed: list[DeadLetterRecord] = []
    with _topic() as topic:
        dead_letters = _of(topic.unresolved(), application)
        if places and not everything:
            # A name that is not listed is an error, unless it was replayed before.
            chosen = choose_dead_letters(dead_letters, places)
            for name in places:
                if not choose_dead_letters(chosen, [name]):
                    topic.at(name)
            dead_letters = chosen
        for dead_letter in topic.replay(dead_letters):
            replayed.append(dead_letter)
            if not as_json:
                echo(f"replayed {dead_letter.name}: {plain(str(dead_letter.dead.place))}")
    if as_json:
        print_json({"replayed": [dead_letter.to_json() for dead_letter in replayed]})
    elif not replayed:
        echo("nothing to replay")


@contextmanager
def _topic() -> Iterator[DeadLetterTopic]:
    from lineage_kafka.dead_letters import DeadLetterTopic, read_kafka_settings

    topic = DeadLetterTopic(read_kafka_settings())
    try:
        yield topic
    finally:
        topic.close()


def _of(dead_letters: Sequence[DeadLetterRecord], application: str) -> list[DeadLetterRecord]:
    return [
        dead_letter
        for dead_letter in dead_letters
        if not application or dead_letter.dead.app == application
    ]


def _content(value: bytes) -> dict[str, Any]:
    """The beginning of a value, as far as it can be read."""
    if value.startswith(b"{"):
        text = value[: 4 * TEXT_PREVIEW].decode("utf-8", "replace")[:TEXT_PREVIEW]
        return {"text": plain(text, keep="\n")}
    document: dict[str, Any] = {}
    header = _frame_header(value)
    if header is not None:
        document["header"] = header
    return document | {"hex": _hex(value[:PREVIEW_BYTES])}


def _frame_header(value: bytes) -> Any:
    """The JSON header of a frame that is whole; None for others."""
    from lineage_core.codec.record_batch import read_record_batches
    from lineage_core.errors import ContractError

    try:
        for frame in read_record_batches(BytesIO(value)):
            header = json.loads(frame.header)
            return header if len(frame.header) <= TEXT_PREVIEW else sorted(header)
    except (ContractError, ValueError, RecursionError, TypeError):
        pass
    return None


def _hex(value: bytes) -> str:
    lines = []
    for at in range(0, len(value), 16):
        row = value[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):47}  {text}")
    return "\n".join(lines)


def _time(at: float) -> str:
    # It takes libraries that tables alone need.
    from lineage.tables import moment_text

    return moment_text(at, "%Y-%m-%d %H:%M:%S")


def _show_table(dead_letters: Sequence[DeadLetterRecord]) -> None:
    from lineage.tables import console, table_of

    table = table_of("letter", "place", "application", "size", "time", "reason")
    table.columns[3].justify = "right"
    for dead_letter in dead_letters:
        dead = dead_letter.dead
        cells = (dead_letter.name, str(dead.place), dead.app, f"{dead.size:,}", _time(dead.at))
        table.add_row(*cells, f"{dead.service}: {dead.reason}")
    console().print(table)
