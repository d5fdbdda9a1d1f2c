"""What Python makes while it loads a module, made when it is first needed: methods of classes, regular expressions."""
