"""What XProf (JAX, TensorFlow, PyTorch/XLA) records, whether it is written as JSON or as planes of protocol buffers."""
