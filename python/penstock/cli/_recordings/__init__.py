"""``penstock recover``, ``verify``, ``export`` and ``plot``: what is done with recorded files."""
