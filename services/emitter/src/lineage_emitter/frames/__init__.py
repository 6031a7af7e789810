"""DataFrame and SQL work: what is noted of it."""
