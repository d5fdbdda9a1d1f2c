"""Tests of what can be asked of a recording: tables, queries, the library, assistants."""
