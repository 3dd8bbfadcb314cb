# The Python library, filtered to what a builder imports.
#
# rooms -> store path to put on PYTHONPATH. Only the rooms named are in it, so an edit to a
# command, a README or another room changes no derivation (trap 4).
rooms:

let
  lib = builtins;
  root = toString ../tools;

  # Below tools/: the package's own two files, and the rooms whole.
  wanted = path: type:
    let
      parts = lib.filter lib.isString (lib.split "/" (lib.substring (lib.stringLength root + 1) (-1) path));
      room = lib.elemAt parts 1;
      file = lib.elemAt parts (lib.length parts - 1);
    in
    if lib.head parts != "apertus_image" then false
    else if lib.length parts == 1 then true
    else if lib.length parts == 2 && type != "directory" then lib.elem room [ "__init__.py" "errors.py" ]
    else lib.elem room rooms && (type == "directory" && file != "__pycache__" || lib.match ".*\\.py" file != null);
in
lib.path { name = "apertus-library"; path = ../tools; filter = wanted; }
