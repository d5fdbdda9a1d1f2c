"""Protocol buffers without descriptions: one message at a time, or very many as columns."""
