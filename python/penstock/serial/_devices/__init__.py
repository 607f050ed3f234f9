"""What a port drives: the protocol of such a device, the kinds there are, and how one is opened."""
