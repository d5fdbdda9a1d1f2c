"""Stretches of a thread's time that serve a known purpose: workers start, the model is evaluated."""
