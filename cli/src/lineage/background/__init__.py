"""A process in the background that keeps a Spark for questions about rows of DataFrames, and ends by itself.

Here is what those who ask need. The process itself and the commands for it lie beside: they need what asks, too.
"""
