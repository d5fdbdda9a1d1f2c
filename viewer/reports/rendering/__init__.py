"""Reports as pages, PDF, Markdown and text: one renderer a format."""
