"""What a serving engine did: its steps, its requests and their latencies."""
