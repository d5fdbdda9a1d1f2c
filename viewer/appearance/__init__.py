"""Colours, fonts, the style sheet, and labels that show text as it is."""
