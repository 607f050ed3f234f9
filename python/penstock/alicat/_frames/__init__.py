"""Data frames: their format, its proof, decoding."""
