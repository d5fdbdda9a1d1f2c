"""What the recorders of ROCm have in common: HIP calls, dispatches and copies, whichever file they lie in."""
