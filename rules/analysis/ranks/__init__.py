"""Collectives of several ranks: matched, measured, and who was late."""
