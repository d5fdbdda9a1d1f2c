"""The diagnosis beside the timeline: cards of findings and the lists of checks."""
