"""The diagnosis as JSON, text and HTML; no Qt."""
