"""WSGI applications on an ASGI server, by PEP 3333: a pool of threads, and streams both ways."""
