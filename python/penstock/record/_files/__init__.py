"""Files of recordings: made, extended, cut and mended; rows as text. Nothing here is public."""
