"""The sinks and their queues."""
