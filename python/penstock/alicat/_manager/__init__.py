"""Many instruments: the manager, and the search for them."""
