"""The programs of the page about recordings."""
