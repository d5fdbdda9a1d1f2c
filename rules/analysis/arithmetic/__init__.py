"""Intervals, searches and durations on int64 columns."""
