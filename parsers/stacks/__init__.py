"""Samples of call stacks: what profilers of the CPU write, as nested calls of each thread."""
