"""The parts of the tab Query: the list of questions, the editor, the answer."""
