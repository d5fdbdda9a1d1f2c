"""Traces outside of memory: files of columns, the cache that reopens recordings, the hand-over between processes."""
