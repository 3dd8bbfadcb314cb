"""The Nix store: paths known before they exist, adding files, the physical root."""
