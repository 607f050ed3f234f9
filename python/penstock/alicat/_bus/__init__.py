"""Questions and answers on a bus: lines, turns, outstanding replies, reconnection."""
