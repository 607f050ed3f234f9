"""``penstock recover``, ``verify``, ``export``, ``plot``, ``query``, ``archive``: recorded files."""
