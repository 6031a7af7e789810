"""Records of a running job that are watched: what is asked for, what tasks report, and the rows that these were made from."""
