"""What a window has open: the recording with its analysis, and the fixes ticked for it."""
