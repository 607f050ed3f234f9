"""Penstock's benchmarks; ``run.py`` is the command."""
