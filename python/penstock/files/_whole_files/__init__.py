"""Whole files: read, written, replaced and copied with one call."""
