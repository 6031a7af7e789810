"""Which URLs of ``--store`` name a server of the query API."""

SERVER_SCHEMES = ("http://", "https://")
