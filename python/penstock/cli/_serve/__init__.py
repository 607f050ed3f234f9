"""``penstock serve``: an ASGI application on a port, in one process or several."""
