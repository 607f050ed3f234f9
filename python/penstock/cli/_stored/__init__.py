"""Stored recordings: ``penstock recover``, ``verify``, ``export``, ``plot``, ``query`` and more."""
