"""Traces over a stored graph, wave by wave. No I/O of its own."""
