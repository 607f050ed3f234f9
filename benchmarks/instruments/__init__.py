"""The programs of the page about Alicat instruments: the far end, and the libraries that ask it."""
