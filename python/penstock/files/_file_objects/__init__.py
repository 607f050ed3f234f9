"""File objects whose methods are awaited, and what opens them."""
