"""Whole files: read, written and copied with many operations in flight."""
