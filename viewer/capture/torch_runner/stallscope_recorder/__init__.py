"""Runs a script under a profiler without a change to it: finds its steps, records some of them, says what it does."""
