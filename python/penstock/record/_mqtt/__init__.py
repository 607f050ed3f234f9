"""MQTT 5: packets, a connection to a broker, and rows as its messages."""
