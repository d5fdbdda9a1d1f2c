"""The steps of a run, marked or found by repetition, and how they differ."""
