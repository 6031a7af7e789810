"""Programs as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.oracle.model import Program, Sink, Source, Step


def readable(program: Program) -> str:
    """One line for each step and action, in PySpark's words; the sources' rows last."""
    lines = [f"r{n} = {_step(program, step)}" for n, step in enumerate(program.steps)]
    lines += [_sink(sink) for sink in program.sinks]
    return "; ".join([*lines, *map(_content, program.sources)])


def _step(program: Program, step: Step) -> str:
    if step.op == "source":
        source = program.sources[step.inputs[0]]
        return f"{source.kind}({source.name}, {source.partitions})"
    first, *others = (f"r{n}" for n in step.inputs)
    return f"{first}.{step.op}({', '.join([*others, *_arguments(step)])})"


def _arguments(step: Step) -> Iterator[str]:
    if step.function:
        yield step.function
    if step.partitions is not None:
        yield str(step.partitions)
    if not step.ascending:
        yield "descending"
    if step.fraction:
        yield f"{step.fraction}, seed={step.seed}"


def _sink(sink: Sink) -> str:
    return f"r{sink.step}.{sink.action}({sink.rows or ''})"


def _content(source: Source) -> str:
    if source.kind == "list":
        return f"{source.name} = {list(source.rows)!r}"
    files = ", ".join(f"{name}: {content!r}" for name, content in source.files)
    return f"{source.name} = {files}"
