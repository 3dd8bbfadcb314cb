# Derivations whose work is a shell script: bash and busybox's applets, nothing else.
#
# { system; bootstrap; } -> { run; applets; }
# run : name -> attributes -> script -> derivation
#   Attributes go to the derivation; nativeBuildInputs are put on PATH. The script runs
#   under `set -eu -o pipefail` and makes $out.
{ system, bootstrap }:

let
  bash = "${bootstrap}/bin/bash";

  # busybox goes by the name it is called with.
  applets = derivation {
    name = "busybox-applets";
    inherit system;
    builder = bash;
    args = [ "-euc" ''"$busybox" mkdir -p "$out/bin"; "$busybox" --install -s "$out/bin"'' ];
    busybox = "${bootstrap}/bin/busybox";
    preferLocalBuild = true;
  };
in
{
  inherit applets;

  run = name: attributes: script: derivation ({
    inherit name system;
    builder = bash;
    args = [ ./setup.sh ];
    path = "${applets}/bin:${bootstrap}/bin";
    buildCommand = script;
  } // attributes);
}
