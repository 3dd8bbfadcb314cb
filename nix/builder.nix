# A derivation whose work is a module of the library (tools/apertus_image).
#
# builder : { name; module; rooms; spec; manifest ? false; content ? true; ... } -> derivation
#
#   builder {
#     name = "loader-cache";
#     module = "elf.ldcache";           # apertus_image.elf.ldcache
#     rooms = [ "tree" "elf" ];         # all it imports, besides apertus_image.errors
#     manifest = true;                  # the tree holds its own, and .manifest is its path
#     spec = { roots = [ ... ]; };      # JSON; derivations in it become their paths
#   }
#
# runs `python3 -m MODULE SPEC OUT [MANIFEST]` on the pinned Python, and nothing else is
# there (trap 6). Further attributes go to the derivation as they are.
{ system, toolchain }:

let
  lib = builtins;
  library = import ./library.nix;
in
{ name, module, rooms, spec
  # The manifest lies in the tree, not in an output of its own: what keeps an image keeps
  # its trees alone, and where of two outputs one has been collected, Nix 2.8.0 stops with
  # "requires non-existent output" (seen).
, manifest ? false
  # What goes into an image may mention no store path, or its closure would come along
  # (trap 5); what only describes images may.
, content ? true
, ...
}@arguments:

let
  file = "usr/share/apertus/manifests/${name}";
  result = derivation (removeAttrs arguments [ "module" "rooms" "content" "manifest" ] // {
    inherit name system;
    builder = "${toolchain}/bin/python3";
    # The spec's file is known to the environment alone, so a line of Python hands it over.
    args = [
      "-c"
      ''
        import os, sys
        os.umask(0o022)
        os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:2], os.environ["specPath"], *sys.argv[2:]])
      ''
      "apertus_image.${module}"
      (lib.placeholder "out")
    ] ++ (if manifest then [ "${lib.placeholder "out"}/${file}" ] else [ ]);

    spec = lib.toJSON spec;
    passAsFile = [ "spec" ];

    # Also where Python looks for itself: Nix calls it by its bare name.
    PATH = "${toolchain}/bin";
    PYTHONPATH = library rooms;
    PYTHONSAFEPATH = "1";
    PYTHONNOUSERSITE = "1";
    PYTHONDONTWRITEBYTECODE = "1";
    PYTHONHASHSEED = "0";
    LANG = "C.UTF-8";
    TZ = "UTC";
  } // (if content then { allowedReferences = [ ]; } else { }));
in
result // (if manifest then { manifest = "${result}/${file}"; } else { })
