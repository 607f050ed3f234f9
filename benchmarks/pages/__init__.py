"""The benchmark pages: one module each, found by its name; ``measure/page.py`` tells the shape."""
