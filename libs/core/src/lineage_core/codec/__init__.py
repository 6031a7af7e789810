"""Blocks and edges as bytes: CSV on the wire and in the spool, packed columns in stores."""
