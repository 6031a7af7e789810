"""Ways for flow blocks and messages to leave the program; the spool is the first."""
