"""Confines the Spark that traces: it reads files below roots, has no network and no secrets of the environment."""
