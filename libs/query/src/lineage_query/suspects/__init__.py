"""What to suspect of an application's wrong rows: its tasks, its keys, and rows of its sources."""
