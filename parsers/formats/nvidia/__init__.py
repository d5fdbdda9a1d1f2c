"""What NVIDIA's own tools write: Nsight Systems, Nsight Compute, nvprof, nvidia-smi and DCGM, TensorRT."""
