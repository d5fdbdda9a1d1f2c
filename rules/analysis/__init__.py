"""Arithmetic on traces that rules and the window share; no Qt, no formats."""
