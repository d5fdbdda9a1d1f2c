"""Memory snapshots of PyTorch's caching allocator, read as data and never run."""
