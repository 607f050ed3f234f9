"""Recorded files: ``penstock recover``, ``verify``, ``export``, ``plot``, ``query``, ``archive``."""
