"""What a ring prepares: a class for each kind of operation, all bases of the ring."""
