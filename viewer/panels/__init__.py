"""The panels around the timeline."""
