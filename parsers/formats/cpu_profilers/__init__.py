"""Sampled stacks and calls of the CPU, as its profilers write them."""
