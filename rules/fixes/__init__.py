"""What a person would change, and what a step would then take."""
