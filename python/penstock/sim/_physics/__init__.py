"""Instruments without any protocol: flow, gases, totalizers, families, firmware."""
