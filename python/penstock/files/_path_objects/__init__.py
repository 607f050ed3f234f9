"""``files.Path``: a path's names, its file, its folder, trees of folders."""
