"""Dumps of PyTorch's flight recorder: the last collectives that a rank called, and how far each got."""
