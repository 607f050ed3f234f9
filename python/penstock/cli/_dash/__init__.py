"""``penstock dash`` and ``penstock grafana``: dashboards of a recording."""
