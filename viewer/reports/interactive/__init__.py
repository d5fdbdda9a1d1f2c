"""What an interactive page holds of a recording: lanes as packed columns, which its script draws."""
