"""Record-level lineage capture for PySpark."""

from lineage_emitter.context import LineageContext
from lineage_emitter.rdd import LineageRDD

__all__ = ["LineageContext", "LineageRDD"]
