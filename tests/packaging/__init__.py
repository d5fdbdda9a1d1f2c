"""Tests of what the desktop packages are made of."""
