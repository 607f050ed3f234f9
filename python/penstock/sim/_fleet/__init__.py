"""Fleets from TOML files, served in a process of their own."""
