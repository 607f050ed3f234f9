"""The sinks, their queues, and the files that they write."""
