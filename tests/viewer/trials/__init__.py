"""The window of a trial, and what it leaves on the cards of fixes."""
