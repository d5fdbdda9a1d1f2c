"""What a rule and a finding are, and which kinds of loss there are."""
