"""Lines and ports: framing, addressing, faults, ptys, TCP, RFC 2217, memory."""
