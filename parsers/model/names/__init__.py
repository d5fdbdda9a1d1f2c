"""What names tell, of steps, kernels, calls, collectives and devices: the same for parsers, rules, window, reports."""
