"""Folders of parts: writing, recovery, compaction."""
