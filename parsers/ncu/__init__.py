"""Reads what Nsight Compute writes: pages of CSV text and binary reports."""
