"""A user's own code as a layer of its own: the prepared tree, and the builder of the layer."""
