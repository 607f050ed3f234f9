"""RFC 2217: the protocol's values and framing, and the client."""
