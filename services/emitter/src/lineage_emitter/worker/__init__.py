"""What tasks run in the executors' Python workers, and what it sends. It loads nothing of the driver."""
