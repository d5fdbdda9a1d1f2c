"""The parts of a device log: its columns, its clock, and its readings as counters."""
