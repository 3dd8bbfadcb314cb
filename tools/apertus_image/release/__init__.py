"""From a clean commit to a released artefact: the gate, and the user's own code."""
