"""The command a person types."""
