"""A process in the background that keeps a Spark for questions about rows of DataFrames, and ends by itself."""
