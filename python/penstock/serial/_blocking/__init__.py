"""Using a device from threads: waiting, locks, closing and forking, for ``sync`` and ``compat``."""
