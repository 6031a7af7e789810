"""Traces of provenance triples by Spark."""
