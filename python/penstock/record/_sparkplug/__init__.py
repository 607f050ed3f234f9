"""Sparkplug B 3.0 over MQTT: payloads, births, rows as data of devices."""
