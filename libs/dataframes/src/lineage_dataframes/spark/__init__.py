"""Spark as traces use it: how it is started, its versions, its settings, its SQL text."""
