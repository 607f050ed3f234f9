"""Sinks of another machine: a spool on disk, its sender, and what a protocol adds to them."""
