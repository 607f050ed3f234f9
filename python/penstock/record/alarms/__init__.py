"""Alarms beyond the recorder: their states, and the ways to people and plants."""

from penstock.record.alarms.alarm_book import AlarmBook, AlarmBookError, AlarmEntry
from penstock.record.alarms.delivery import (
    AlarmDelivery,
    Destination,
    MqttAlarms,
    NeverTaken,
    Webhook,
)

__all__ = [
    "AlarmBook",
    "AlarmBookError",
    "AlarmDelivery",
    "AlarmEntry",
    "Destination",
    "MqttAlarms",
    "NeverTaken",
    "Webhook",
]
