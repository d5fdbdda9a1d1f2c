"""Records a script under the PyTorch profiler, Nsight Systems or Nsight Compute; the engine knows no Qt."""
