"""MQTT 5: packets, a connection to a broker, rows as its messages; Sparkplug B above it."""
