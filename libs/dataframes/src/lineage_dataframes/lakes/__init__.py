"""Traces of captured applications in a lake, by Spark."""
