"""One profiled kernel in detail, and the report that stands in place of a timeline."""
