"""Curves of any length as the extremes of bins, for pictures and pages."""
