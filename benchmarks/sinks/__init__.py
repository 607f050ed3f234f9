"""The program of the page about sinks."""
