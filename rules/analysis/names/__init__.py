"""What the name of a kernel, call or region tells."""
