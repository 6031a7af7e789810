"""The spool: a folder in which blocks and messages wait."""
