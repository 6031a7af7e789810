"""Commands of Hadoop Streaming: what runs captured, and what is refused."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pytest

from lineage_emitter.errors import UnsupportedOperatorError
from lineage_emitter.sdk import mapreduce_task
from lineage_emitter.sdk.mapreduce_command import StreamingJob, captured

pytestmark = pytest.mark.unit
TASK = mapreduce_task.__file__
START = ("hadoop", "jar", "lib/hadoop-streaming-3.4.2.jar")
JOB = ("-input", "in", "more", "-output", "out", "-mapper", "python3 -u m.py x", "-reducer", "cat")


def rewritten(*words: str, each_line: bool = False, named_keys: bool = False) -> StreamingJob:
    return captured(words, each_line=each_line, named_keys=named_keys)


def test_programs_run_by_way_of_the_task() -> None:
    job = rewritten(*START, *JOB)
    assert (job.inputs, job.output) == ("in more", "out")
    assert job.command[:3] == START
    assert job.command[job.command.index("-mapper") + 1] == (
        f'"{sys.executable}" "{TASK}" --as-is python3 -u m.py x'
    )
    assert job.command[-1] == f'"{sys.executable}" "{TASK}" --as-is cat'


def test_a_mapper_that_is_observed_keeps_its_python() -> None:
    command = rewritten(*START, *JOB, each_line=True).command
    assert command[command.index("-mapper") + 1] == f'python3 -u "{TASK}" --each-line m.py x'
    assert "--as-is cat" in command[-1]


def test_settings_of_the_job_reach_its_tasks_by_other_names() -> None:
    own = "stream.num.map.output.key.fields=2"
    for words in (("-D", own), (f"-D{own}",)):
        command = rewritten(*START, *words, *JOB).command
        assert own not in command
        assert f"-D{own}" not in command
        assert any(word.endswith("lineage.map.fields=2") for word in command)
        assert f"-D{own[:-1]}1" in command


@pytest.mark.parametrize(
    "no_reducers",
    [
        ("-numReduceTasks", "0"),
        ("-D", "mapreduce.job.reduces=0"),
        ("-D", "mapred.reduce.tasks=0"),
    ],
)
def test_where_nothing_is_shuffled_settings_stay(no_reducers: tuple[str, str]) -> None:
    own = ("-D", "stream.map.output.field.separator=.")
    command = rewritten(*START, *own, *no_reducers, *JOB).command
    assert command[3:5] == own
    assert command[-1] == "cat"


def test_settings_of_splits_and_shuffles_pass() -> None:
    settings = (
        "mapreduce.input.fileinputformat.split.maxsize=9",
        "mapreduce.map.output.compress=true",
    )
    words = [word for setting in settings for word in ("-D", setting)]
    assert set(settings) <= set(rewritten(*START, *words, *JOB).command)


@pytest.mark.parametrize(
    "words",
    [
        ("-combiner", "cat"),
        ("-io", "typedbytes"),
        ("-inputreader", "StreamXmlRecord"),
        ("-conf", "site.xml"),
        ("-lazyOutput",),
        ("-background",),
        ("-inputformat", "org.apache.hadoop.mapred.KeyValueTextInputFormat"),
        ("-outputformat", "org.apache.hadoop.mapred.SequenceFileOutputFormat"),
        ("-partitioner", "com.example.ByValue"),
        ("-partitioner", "com.example.HashPartitioner"),
        ("-D", "textinputformat.record.delimiter=;"),
        ("-Dstream.map.output=typedbytes",),
        ("-jobconf", "mapreduce.job.partitioner.class=com.example.ByValue"),
        ("-D", "mapreduce.map.skip.maxrecords=1"),
        ("-D", "mapreduce.output.fileoutputformat.compress=true"),
        ("-D", "mapred.output.compress=true"),
        ("-D", "mapreduce.job.inputformat.class=x"),
        ("-D", "lineage.mark=x"),
        ("-D", "stream.non.zero.exit.is.failure=false"),
    ],
)
def test_options_that_change_records_are_refused_by_name(words: tuple[str, ...]) -> None:
    is_setting = words[0].startswith("-D") or words[0] == "-jobconf"
    named = words[-1].removeprefix("-D") if is_setting else words[0]
    with pytest.raises(UnsupportedOperatorError, match=re.escape(named)):
        rewritten(*START, *words, *JOB)


@pytest.mark.parametrize(
    "words",
    [
        ("hadoop", "jar", "other.jar", *JOB),
        (*START, *JOB[:-2]),
        (*START, *JOB[2:]),
        (*START, *JOB[:-1], "aggregate"),
        (*START, *JOB[:-1], "org.apache.hadoop.mapred.lib.IdentityReducer"),
    ],
)
def test_jobs_without_programs_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedOperatorError):
        rewritten(*words)


def test_declarations_must_fit() -> None:
    with pytest.raises(UnsupportedOperatorError, match="--each-line for cat"):
        rewritten(*START, *JOB[:6], "cat", *JOB[-2:], each_line=True)
    with pytest.raises(UnsupportedOperatorError, match="--named-keys"):
        rewritten(*START, "-D", "stream.num.map.output.key.fields=2", *JOB, named_keys=True)


SITE = "<property><name>stream.num.map.output.key.fields</name><value>2</value></property>"


@pytest.mark.parametrize("is_jar", [False, True])
def test_settings_of_the_site_that_capture_takes_are_refused(tmp_path: Path, is_jar: bool) -> None:
    classpath = str(tmp_path)
    if is_jar:
        with zipfile.ZipFile(tmp_path / "site.jar", "w") as jar:
            jar.writestr("mapred-site.xml", SITE)
        classpath = f"{tmp_path}/*"
    else:
        (tmp_path / "mapred-site.xml").write_text(SITE)
    start = ("java", "-cp", classpath, "org.apache.hadoop.streaming.HadoopStreaming")
    with pytest.raises(UnsupportedOperatorError, match=r"key\.fields in .*mapred-site\.xml"):
        rewritten(*start, *JOB)
    # What the command says counts, in Hadoop as well; and nothing is taken where nothing is shuffled.
    rewritten(*start, "-D", "stream.num.map.output.key.fields=2", *JOB)
    rewritten(*start, "-numReduceTasks", "0", *JOB)


def test_hadoop_is_asked_where_its_site_is(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "core-site.xml").write_text(SITE)
    hadoop = tmp_path / "hadoop"
    hadoop.write_text('#!/bin/sh\n[ "$3" = classpath ] && echo "$2:/nowhere"\n')
    hadoop.chmod(0o755)
    with pytest.raises(UnsupportedOperatorError, match=r"core-site\.xml"):
        rewritten(str(hadoop), "--config", f"{tmp_path}/conf", *START[1:], *JOB)
