"""OCI layers and images as nix2container describes them, byte for byte."""
