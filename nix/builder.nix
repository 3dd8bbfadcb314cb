# A derivation whose work is a module of the library (tools/apertus_image).
#
# builder : { name; module; rooms; spec; outputs ? [ "out" ]; content ? true; ... } -> derivation
#
#   builder {
#     name = "loader-cache";
#     module = "elf.ldcache";           # apertus_image.elf.ldcache
#     rooms = [ "tree" "elf" ];         # all it imports, besides apertus_image.errors
#     outputs = [ "out" "manifest" ];   # the module gets one argument for each
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
{ name, module, rooms, spec, outputs ? [ "out" ]
  # What goes into an image may mention no store path, or its closure would come along
  # (trap 5); what only describes images may.
, content ? true
, ...
}@arguments:

derivation (removeAttrs arguments [ "module" "rooms" "content" ] // {
  inherit name system outputs;
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
  ] ++ map lib.placeholder outputs;

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
} // (if content then { allowedReferences = [ ]; } else { }))
