"""Capture of record-level lineage inside PySpark."""
