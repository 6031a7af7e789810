"""What every service needs: health and metrics over HTTP, structured logs, memory, settings of Redis."""
