# The two static programs that unpack everything else: Debian's bash and busybox.
#
# Nothing can run in an empty sandbox to make them (trap 6), so tools/prefetch unpacks
# them and adds the tree as a fixed-output path. This derivation only names that path; it
# cannot build, and its URL is what Nix prints then: the command to run.
{ system
, hash    # SHA-256 of the NAR of the tree: bin/bash and bin/busybox (nix/pins/bootstrap.json)
}:

derivation {
  name = "apertus-bootstrap-${system}";
  system = "builtin";
  builder = "builtin:fetchurl";
  url = "file:///the-bootstrap-is-not-in-the-store/next/run/tools/prefetch";
  outputHashMode = "recursive";
  outputHashAlgo = "sha256";
  outputHash = hash;
  preferLocalBuild = true;
}
