"""Rows as typed columns, and what the sinks make of them."""
