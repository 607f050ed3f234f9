"""Recorded files: ``penstock recover``, ``verify``, ``export``, ``plot``, ``query`` and so on."""
