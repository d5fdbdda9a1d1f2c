"""One launch's metrics, checked: each module one part of the GPU."""
