"""A run of many ranks: the map of ranks and steps above the timeline, and who costs most at the right."""
