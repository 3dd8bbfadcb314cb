# Patches by image, in the order of series.json; each is data with proofs (design
# decision 6): patch.diff, patch.json with the hashes before and after, a README.
let
  lib = builtins;

  patch = folder: {
    name = baseNameOf folder;
    inherit (lib.fromJSON (lib.readFile (./. + "/${folder}/patch.json"))) wheel;
    diff = ./. + "/${folder}/patch.diff";
    meta = ./. + "/${folder}/patch.json";
  };
in
lib.mapAttrs (_: map patch) (lib.fromJSON (lib.readFile ./series.json))
