"""Running Nix over this project: which maker makes the layers, and the build itself."""
