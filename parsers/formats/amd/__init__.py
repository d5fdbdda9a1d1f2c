"""What ROCm's recorders and the monitors of AMD GPUs write."""
