"""Recordings in a store of lineage: written by the program that computed, questioned later by any other."""

from lineage_arrays.saved.address import CellAddress, parse_address
from lineage_arrays.saved.measuring import measured_run
from lineage_arrays.saved.reading import StoredRecording, read_recording
from lineage_arrays.saved.storing import store_recording
from lineage_arrays.saved.tracing import StoredTrace, trace_back, trace_forward

__all__ = [
    "CellAddress",
    "StoredRecording",
    "StoredTrace",
    "measured_run",
    "parse_address",
    "read_recording",
    "store_recording",
    "trace_back",
    "trace_forward",
]
