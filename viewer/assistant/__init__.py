"""Recordings for assistants, by the Model Context Protocol: read-only, and nothing but what was named at the start."""
