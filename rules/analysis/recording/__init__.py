"""What a recording is of, and whether it is whole: its subject, units of time, lost records, what repeats in it."""
