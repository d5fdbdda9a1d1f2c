"""What logs beside a recording say: clocks and power of GPUs, and compilations."""
