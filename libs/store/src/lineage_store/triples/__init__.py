"""Provenance triples of others, in tables of a lake: imported, indexed by connected sets, and read by number."""
