"""Hadoop Streaming on Hadoop's local runner: its jar over the classes of Hadoop that PySpark has."""

from __future__ import annotations

from pathlib import Path

import pyspark

from lineage.stack.programs import java
from tests.support import jvm
from tests.support.fetched_jars import fetched_jars

HERE = Path(__file__).parent


def streaming_command(folder: Path, *options: str) -> list[str]:
    """What starts a job; its files are below ``folder``."""
    jars = [Path(pyspark.__file__).parent / "jars", fetched_jars(HERE)]
    settings = {
        "mapreduce.framework.name": "local",
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": str(folder / "hadoop"),
    }
    return [
        *(str(java()), *jvm.OPTIONS.split(), f"-Djava.io.tmpdir={folder}"),
        *("-cp", ":".join(f"{path}/*" for path in jars)),
        "org.apache.hadoop.streaming.HadoopStreaming",
        *(word for name, value in settings.items() for word in ("-D", f"{name}={value}")),
        *options,
    ]
