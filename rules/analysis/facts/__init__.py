"""What a recording is of and what happened in its window: budget, copies, traffic, vendor, language."""
