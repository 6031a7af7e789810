"""Writes SparkWrites.class anew, by the compiler that Spark has: `make listener`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark import SparkContext

CLASS = "lineage.SparkWrites"


def compiled(sc: SparkContext) -> bytes:
    """The class as the source beside it says."""
    jvm: Any = sc._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
    compiler.setTargetVersion(8)
    # No line numbers: a comment in the source does not change the class.
    compiler.setDebuggingInformation(False, False, False)
    compiler.cook(files("lineage_emitter.session").joinpath("SparkWrites.java").read_text("utf-8"))
    return bytes(compiler.getBytecodes().get(CLASS))


def main() -> None:
    with SparkContext("local[1]", "listener") as sc:
        Path(str(files("lineage_emitter.session").joinpath("SparkWrites.class"))).write_bytes(
            compiled(sc)
        )


if __name__ == "__main__":
    main()
