"""What no setting can mend, taken away to see what that would give at most; one module each."""
