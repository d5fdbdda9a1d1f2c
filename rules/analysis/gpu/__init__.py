"""What GPUs did inside the window: copies, kernels that only move memory, launches too small, idle GPU-hours."""
