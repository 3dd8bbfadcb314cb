"""The self-contained folder: everything the tools need, for a user without root or Python."""
