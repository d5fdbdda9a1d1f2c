"""Sentences and advice that findings share."""
