"""``penstock grafana``: dashboards and provisioning files for Grafana."""
