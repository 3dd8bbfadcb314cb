"""The library behind the commands in tools/ and the builders in nix/.

Data goes one way: pins -> fetch -> store -> (debian | wheel | patch) -> oci -> image.
docs/architecture.md says what each room is for and which rooms it may import.
"""
