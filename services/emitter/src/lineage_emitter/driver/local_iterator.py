"""``toLocalIterator``: its items are the records that reached the user, however early it is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.serializers import Serializer

from lineage_core.answers import ANSWERS
from lineage_emitter import scope
from lineage_emitter.driver.driver_sinks import DriverSink
from lineage_emitter.driver.pairs import raising_driver_errors
from lineage_emitter.driver.shuffles import with_addresses
from lineage_emitter.worker.batches import carries_addresses
from lineage_emitter.worker.inband_addresses import AddressRanges
from lineage_emitter.worker.spaces import space_of_split

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD

NAME = "toLocalIterator"


def iterate(rdd: CapturedRDD, prefetch: bool) -> Iterator[Any]:
    """PySpark's own iterator over the RDD's own streams."""
    ANSWERS.note(scope.running_site())
    taken_records = TakenRecords(rdd if carries_addresses(rdd) else with_addresses(rdd))
    streams: RDD[Any] = RDD(taken_records.rdd._jrdd, rdd.ctx, taken_records)
    return taken_records.records(streams.toLocalIterator(prefetch))


class TakenRecords(Serializer):
    """Reads partition by partition on the driver, and counts what the user took."""

    def __init__(self, rdd: CapturedRDD) -> None:
        self.rdd = rdd
        self.count = 0
        self._streams: list[tuple[int, AddressRanges]] = []
        self._sink = rdd.session.nodes.register("sink", NAME, [rdd.node], alias=NAME)
        self._driver_sink = DriverSink(rdd.session, self._sink)
        self._call_site = scope.call_site()
        rdd.session.jobs.open_ends.append(self.record_taken_items)

    def load_stream(self, stream: Any) -> Iterable[Any]:
        """The next partition's records; those of the partitions before have all been taken."""
        records: Any = self.rdd._jrdd_deserializer.load_stream(stream)
        if self.rdd.spaces is None:
            ranges = records.address_ranges
        else:
            ranges = AddressRanges()
            ranges.add(0, space_of_split(self.rdd.spaces, len(self._streams)), 0)
        self._streams.append((self.count, ranges))
        return records  # type: ignore[no-any-return]

    def records(self, records: Iterator[Any]) -> Iterator[Any]:
        """The records, counted as they are taken."""
        session = self.rdd.session
        try:
            with raising_driver_errors(self.rdd):
                for record in self._driver_sink.pass_records(records):
                    self.count += 1
                    yield record
        except GeneratorExit:
            self.record_taken_items()
            raise
        except Exception as problem:
            session.jobs.record_action_failure(NAME, self._sink, problem)
            raise
        self.record_taken_items()
        session.commits.drain()

    def record_taken_items(self) -> None:
        """Record the items that were taken; once, and not after the end of the session."""
        session = self.rdd.session
        if self.record_taken_items in session.jobs.open_ends:
            session.jobs.open_ends.remove(self.record_taken_items)
            ranges = self._ranges()
            session.jobs.record_or_defer(
                lambda: self._driver_sink.finish(ranges, range(self.count))
            )
            session.jobs.record_job_later(NAME, self._sink, self._call_site)

    def _ranges(self) -> AddressRanges:
        ranges = AddressRanges()
        for start, stream_ranges in self._streams:
            for part in zip(
                stream_ranges.starts, stream_ranges.spaces, stream_ranges.bases, strict=True
            ):
                ranges.add(start + part[0], *part[1:])
        return ranges
