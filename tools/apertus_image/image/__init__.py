"""The image as a whole: the identity of its content and the gate before its name."""
