"""Commands that start a job of Hadoop Streaming: what capture can't follow is refused by name, the rest runs captured."""

from __future__ import annotations

import argparse
import re
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import NoReturn

from lineage_emitter.errors import UnsupportedOperatorError
from lineage_emitter.sdk import mapreduce_task
from lineage_emitter.sdk.mapreduce_site import site_settings

PROGRAM = re.compile(r".*HadoopStreaming|.*hadoop-streaming[^:]*\.jar|streaming")
"""The last word before the options of a job."""
OPTIONS = {
    **dict.fromkeys(("input", "file", "files", "archives", "libjars", "cmdenv", "fs"), "+"),
    **dict.fromkeys(
        ("output", "mapper", "reducer", "numReduceTasks", "partitioner", "inputformat")
    ),
}
OWN_SETTINGS = {
    "stream.map.output.field.separator": "lineage.map.separator",
    "stream.num.map.output.key.fields": "lineage.map.fields",
    "stream.reduce.input.field.separator": "lineage.reduce.separator",
}
"""Settings that capture takes for itself, and by which names tasks find the job's own."""
SETTINGS = re.compile(
    r"(stream\.(num\.reduce\.output\.key\.fields|reduce\.output\.field\.separator|tmpdir)"
    r"|(?!stream\.|lineage\.)(?!.*(skip|delimiter|format\.class|partitioner\.class|combine|reader|committer))"
    r"(?!.*(?<!map\.)output\.(fileoutputformat\.)?compress)[\w.-]+)=.*",
    re.DOTALL,
)
"""Other settings that leave records and files of text what they are."""
MARK_LETTERS = 7
"""Random letters and digits that records are marked by: few, because each record carries them. Tasks stop where a record has them by chance."""
REDUCES = ("mapreduce.job.reduces=", "mapred.reduce.tasks=")
LIBRARY = "org.apache.hadoop.mapred"
KEY_PARTITIONERS = tuple(
    f"{LIBRARY}.lib.{name}Partitioner" for name in ("Hash", "KeyFieldBased", "TotalOrder")
)
"""Partitioners that look at keys alone."""
TEXT_FORMATS = ("TextInputFormat", f"{LIBRARY}.TextInputFormat")
NEEDED = ("input", "output", "mapper")
PYTHON = re.compile(r"((?:\S*/)?python[\d.]*(?: +-u)?) +(\S+\.py(?: .*)?)")
JAVA_CLASS = re.compile(r"aggregate|(\w+\.){2,}\w+")


@dataclass(frozen=True, slots=True)
class StreamingJob:
    """A job as it runs captured: its command, and what it reads and writes."""

    command: tuple[str, ...]
    inputs: str
    output: str


def captured(command: Sequence[str], *, each_line: bool, named_keys: bool) -> StreamingJob:
    """The command that runs a job captured.

    Args:
        command: as people start the job.
        each_line: whether the mapper is a Python program that is observed.
        named_keys: whether lines of the reducer begin with their key.

    Raises:
        UnsupportedOperatorError: an option whose records can't be followed.
    """
    words = list(command)
    begin = next((n for n, word in enumerate(words) if word == "-input"), len(words))
    begin = max((n + 1 for n in range(begin) if PROGRAM.fullmatch(words[n])), default=0)
    if not begin:
        _refuse("a command without hadoop-streaming.jar", "give the one that starts the job")
    options = _parsed(words[begin:])
    settings: list[str] = options.D
    is_map_only = (
        options.reducer == "NONE"
        or options.numReduceTasks == "0"
        or any(setting == f"{name}0" for setting in settings for name in REDUCES)
    )
    for setting in settings:
        if setting.partition("=")[0] in OWN_SETTINGS:
            if named_keys and not is_map_only:
                _refuse(setting, "keys have one field where lines name them (--named-keys)")
        elif not SETTINGS.fullmatch(setting):
            _refuse(f"the setting {setting}", "it may change what a record is")
    if options.partitioner not in (None, *KEY_PARTITIONERS):
        _refuse(f"-partitioner {options.partitioner}", f"use {', '.join(KEY_PARTITIONERS)}")
    if options.inputformat not in (None, *TEXT_FORMATS):
        _refuse(f"-inputformat {options.inputformat}", "use TextInputFormat")
    _replace(words, "-mapper", options.mapper, each_line=each_line)
    if not is_map_only:
        own_names = {setting.partition("=")[0] for setting in settings}
        for name, place in site_settings(words[:begin], OWN_SETTINGS.keys() - own_names):
            _refuse(f"{name} in {place}", "give it with -D")
        _replace(words, "-reducer", options.reducer, each_line=False)
        for at in range(begin, len(words)):
            prefix = "-D" if words[at].startswith("-D") else ""
            name, is_setting, value = words[at].removeprefix("-D").partition("=")
            if is_setting and name in OWN_SETTINGS:
                words[at] = f"{prefix}{OWN_SETTINGS[name]}={value}"
        mark = "".join(secrets.choice(ascii_letters + digits) for _ in range(MARK_LETTERS))
        separator, fields, given = OWN_SETTINGS
        own = (f"{separator}={mark}", f"{fields}=1", f"{given}={mark}", f"lineage.mark={mark}")
        words[begin:begin] = [f"-D{setting}" for setting in own]
    return StreamingJob(tuple(words), " ".join(options.input), options.output)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(add_help=False, allow_abbrev=False)
    for name, number in OPTIONS.items():
        parser.add_argument(
            f"-{name}",
            nargs=number,
            action="extend" if number else "store",
            required=name in NEEDED,
        )
    parser.add_argument("-D", "-jobconf", action="append", default=[])
    parser.add_argument("-verbose", action="store_true")
    options, others = parser.parse_known_args(words)
    if others:
        _refuse(others[0], "its records can't be followed")
    return options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _refuse("this command", message)


def _replace(words: list[str], option: str, program: str | None, *, each_line: bool) -> None:
    """Have a program run by way of the task's part of capture."""
    if program is None or JAVA_CLASS.fullmatch(program):
        _refuse(
            f"{option} {program or 'left out'}", "a class of Java is not followed; use a command"
        )
    task = mapreduce_task.__file__
    if each_line:
        python = PYTHON.fullmatch(program)
        if python is None:
            _refuse(f"--each-line for {program}", "the mapper must be `python3 PROGRAM.py ...`")
        program = f'{python[1]} "{task}" --each-line {python[2]}'
    else:
        program = f'"{sys.executable}" "{task}" --as-is {program}'
    words[words.index(option) + 1] = program


def _refuse(what: str, way_out: str) -> NoReturn:
    raise UnsupportedOperatorError(what, way_out)
