"""InfluxDB's line protocol: its text, its addresses, its requests, and the lines it refuses."""
