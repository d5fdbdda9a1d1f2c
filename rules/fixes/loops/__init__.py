"""Loops of a program: which of them go over items, and which rounds need nothing from the one before."""
