"""The device classes, and opening them."""
