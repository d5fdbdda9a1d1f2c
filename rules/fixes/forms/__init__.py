"""Ways in which programs write what has a better form: recognised by operators that follow one another."""
