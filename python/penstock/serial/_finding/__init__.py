"""Which ports the machine has, and which come and go."""
