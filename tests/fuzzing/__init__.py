"""Damaged recordings, tried without end: every format, guided by the code that an input reaches."""
