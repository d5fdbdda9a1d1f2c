"""What fills the memory of a GPU: kinds of allocations, the peak, growth from step to step, and why it ran out."""
