"""Idle time of a GPU: where it is, what caused it, and who is to blame for it."""
