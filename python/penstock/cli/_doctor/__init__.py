"""``penstock doctor``: what this machine offers Penstock."""
