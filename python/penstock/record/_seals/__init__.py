"""Proof that a recording is as it was written: running digests, their files, signatures, checks."""
