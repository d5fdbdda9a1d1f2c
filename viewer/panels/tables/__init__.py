"""Tables and lists of facts that every tab and dialog uses."""
