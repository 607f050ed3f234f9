"""The session with one instrument, and what keeps it proven: identity, data frame format, units."""
