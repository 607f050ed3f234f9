"""Compressed files and archives: the standard library's codecs on worker threads."""
