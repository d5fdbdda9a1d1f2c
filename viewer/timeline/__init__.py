"""The timeline: lanes of events on a shared time axis."""
