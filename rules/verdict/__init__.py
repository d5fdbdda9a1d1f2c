"""Sentences about a whole diagnosis: the verdict, what fixes promise, what trials measured."""
