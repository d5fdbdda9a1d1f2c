"""Logs of torch.compile: what was compiled, how long that took, why again, and where graphs broke."""
