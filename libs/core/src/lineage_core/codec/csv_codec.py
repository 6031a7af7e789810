"""Flow blocks as CSV (RFC 4180): what travels and what the spool holds.

A header row ``flowId,hashIn,hashOut,value``, then one row per flow:

``flowId``   ``<block id>/<row>``, e.g. ``4#0.17#2/0``
``hashIn``   ``<input space>#<region>``, the region being runs like ``0-3 7 12``, possibly none;
             in the opaque space the string itself, an unquoted empty cell being no input
``hashOut``  ``<output space>#<position>`` or ``<space>#<first>-<last>``; or the opaque string
``value``    the text of the record: unquoted and empty is None, ``""`` the empty text

Lines end with LF; CRLF is read too. Encoding and decoding work on columns.
"""

from __future__ import annotations

from lineage_core.codec.csv_cells import COLUMNS, CSV_BYTES_MAX
from lineage_core.codec.csv_decode import decode_csv
from lineage_core.codec.csv_encode import clean_value, encode_csv
from lineage_core.contract.block_header import BlockHeader, header_of

__all__ = [
    "COLUMNS",
    "CSV_BYTES_MAX",
    "BlockHeader",
    "clean_value",
    "decode_csv",
    "encode_csv",
    "header_of",
]
