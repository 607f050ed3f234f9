"""``files.watch``: changes below folders, from inotify(7)."""
