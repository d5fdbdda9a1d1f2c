"""Tries changes in a program: launches it as often as that takes, and gathers what each change gave."""
