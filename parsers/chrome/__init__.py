"""Reads Chrome trace JSON as PyTorch's profiler (Kineto) and many other tools write it."""
