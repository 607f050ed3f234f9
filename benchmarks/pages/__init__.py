"""The benchmark pages, one module each. ``measure/page.py`` documents their interface."""
