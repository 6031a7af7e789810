"""Lineage of DataFrame and SQL outputs: traces computed by rewritten queries."""
