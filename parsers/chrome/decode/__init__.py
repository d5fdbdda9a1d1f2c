"""From bytes to columns of decoded events."""
