"""Joins what one block puts out with what another reads. No I/O."""
