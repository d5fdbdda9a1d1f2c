"""Hardware counters of profiled launches: findings, rooflines, and how they join a timeline."""
