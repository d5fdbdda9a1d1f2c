"""What recordings say that lie beside a timeline: of kernels from the inside, of operators, of sampled metrics."""
