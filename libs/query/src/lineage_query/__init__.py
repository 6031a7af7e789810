"""Queries over stored lineage: one engine for every store."""
