"""Fails before anything could be recorded."""

raise ValueError("shape mismatch in layer 3")
