"""Grafana dashboards as code, and the alerts that go with them (docs/guide/monitoring.md)."""
