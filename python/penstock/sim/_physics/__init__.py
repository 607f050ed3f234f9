"""Instruments without any protocol: flow, gases, totalizers, firmware."""
