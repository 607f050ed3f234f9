"""The asynchronous port: receiving, sending, waiting, closing, reconnecting."""
