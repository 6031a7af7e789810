"""Files that jobs read and write: their messages, so that their rows can be found again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lineage_core.contract.message import RecordFiles, SinkFile, SinkFiles
from lineage_emitter.sdk.checksums import Checksums, with_checksums
from lineage_emitter.session import hadoop

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lineage_core.contract.graph import Unit
    from lineage_emitter.session.commit_thread import CommitThread
    from lineage_emitter.session.hadoop import FileSource
    from lineage_emitter.session.nodes import Node, Nodes
    from lineage_emitter.session.problems import Problems


class JobFiles:
    """Sends the files of sources and sinks."""

    def __init__(
        self,
        sc: SparkContext,
        app: str,
        problems: Problems,
        nodes: Nodes,
        commits: CommitThread,
        checksums_max: int,
    ) -> None:
        self._sc = sc
        self._app = app
        self._problems = problems
        self._nodes = nodes
        self._commits = commits
        # What is read takes nothing from what is written.
        self._of_read, self._of_written = Checksums(checksums_max), Checksums(checksums_max)

    def record_sources(self, nodes: Iterable[Node]) -> None:
        """Record once which files sources read; nothing for other nodes."""
        for node in nodes:
            if node.files is not None:
                source, node.files = node.files, None
                self._send_splits(node, source)

    def _send_splits(self, node: Node, source: FileSource) -> None:
        try:
            splits = hadoop.splits_of(self._sc, self._app, node.name, source)
        except Exception as problem:
            self._nodes.unknown(node.op, f"its files could not be listed: {problem!r:.200}")
            return
        if splits is not None:
            # The tasks of the action have read them by now.
            self._commits.send(with_checksums(splits, self._of_read))

    def pin(self, node: Node) -> None:
        """A checkpoint will cut the source's RDD off from the files that it reads."""
        source = node.files
        if source is not None:

            def pin() -> None:
                node.files = hadoop.with_reading_rdd(self._sc, source)

            self._problems.guard("find the files of a source", pin)

    def record_sink_files(self, node: Node, path: str, unit: Unit = "line") -> None:
        """Register the files that a sink has written (before the job is recorded).

        ``unit``: what its items are of these files.
        """

        def note() -> None:
            self._commits.drain()
            files = tuple(
                file.model_copy(
                    update={"rows": self._commits.rows.get((node.name, file.partition))}
                )
                for file in hadoop.sink_files(self._sc, path)
            )
            # Behind the commits, in their thread: the end of the action waits for it.
            self._commits.put(lambda: self._send_sink_files(node, path, unit, files))

        self._problems.guard("note the files of a sink", note)

    def _send_sink_files(
        self, node: Node, path: str, unit: Unit, files: tuple[SinkFile, ...]
    ) -> None:
        kind = SinkFiles if unit == "line" else RecordFiles
        message = kind(app=self._app, node=node.name, path=path, files=files)
        self._commits.send(with_checksums(message, self._of_written))
