"""Runs of many ranks: each rank reduced to a summary where it lies, and the run joined from these."""
