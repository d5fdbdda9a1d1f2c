"""What the analysis, the rules and their words have in common: culprits and thresholds."""
