# The Python library, filtered to what a builder imports.
#
# parts -> store path to put on PYTHONPATH. A part is a room ("tree") or one file of a room
# ("fetch/index.py"). Nothing else is in it, so an edit to a command, a README or another
# room changes no derivation (trap 4).
parts:

let
  lib = builtins;
  package = toString ../tools + "/apertus_image";

  startsWith = prefix: text: lib.substring 0 (lib.stringLength prefix) text == prefix;
  kept = [ "__init__.py" "errors.py" ] ++ parts;

  # A file is kept if it or its room is named; a folder, if it may hold such a file.
  wanted = path: type:
    let inside = lib.substring (lib.stringLength package + 1) (-1) path; in
    path == package || startsWith "${package}/" path && (
      if type == "directory"
      then baseNameOf path != "__pycache__"
        && lib.any (part: startsWith "${part}/" "${inside}/" || startsWith "${inside}/" part) kept
      else lib.match ".*\\.py" inside != null
        && lib.any (part: inside == part || startsWith "${part}/" inside) kept
    );
in
lib.path { name = "apertus-library"; path = ../tools; filter = wanted; }
