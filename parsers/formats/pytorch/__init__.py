"""What PyTorch writes beside the traces of its profiler."""
