# The functions of nixpkgs' lib that nix2container's default.nix uses, with their meaning
# there. It puts builtins over them (`pkgs.lib // builtins`), so those are left out.
let
  lib = builtins;
in
rec {
  # string -> string
  toLower = lib.replaceStrings
    (lib.filter (c: c != "" && lib.isString c) (lib.split "" "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    (lib.filter (c: c != "" && lib.isString c) (lib.split "" "abcdefghijklmnopqrstuvwxyz"));
  removePrefix = prefix: text:
    let length = lib.stringLength prefix; in
    if lib.substring 0 length text == prefix
    then lib.substring length (lib.stringLength text - length) text
    else text;
  # literal separator -> string -> [ string ]
  splitString = separator: text:
    map lib.unsafeDiscardStringContext
      (lib.filter lib.isString (lib.split (escapeRegex separator) (toString text)));
  escapeRegex = lib.replaceStrings
    [ "\\" "^" "$" "." "[" "]" "|" "(" ")" "?" "*" "+" "{" "}" ]
    [ "\\\\" "\\^" "\\$" "\\." "\\[" "\\]" "\\|" "\\(" "\\)" "\\?" "\\*" "\\+" "\\{" "\\}" ];
  optionalString = condition: text: if condition then text else "";
  concatMapStringsSep = separator: f: list: lib.concatStringsSep separator (map f list);
  boolToString = value: if value then "true" else "false";

  optional = condition: element: if condition then [ element ] else [ ];
  optionals = condition: list: if condition then list else [ ];
  toList = value: if lib.isList value then value else [ value ];
  flatten = value: if lib.isList value then lib.concatMap flatten value else [ value ];

  defaultTo = fallback: value: if value == null then fallback else value;
  isDerivation = value: value.type or null == "derivation";
  importJSON = file: lib.fromJSON (lib.readFile file);

  traceIf = condition: message: value: if condition then lib.trace message value else value;
  warnIf = condition: message: value:
    if condition then lib.trace "warning: ${message}" value else value;
  throwIf = condition: message: value: if condition then throw message else value;

  fetchers.proxyImpureEnvVars = [ "http_proxy" "https_proxy" "ftp_proxy" "all_proxy" "no_proxy" ];

  # A fileset is { contains = path -> bool; }, asked about regular files and links alone.
  # Enough for a source tree without .git, as a flake input is: all of it is tracked.
  fileset =
    let
      below = folder: path: lib.substring 0 (lib.stringLength folder + 1) path == "${folder}/";
      coerce = value:
        if value ? contains then value
        else { contains = path: path == toString value || below (toString value) path; };
      hasExt = name: extension: lib.match ".*\\.${escapeRegex extension}" name != null;
    in
    {
      unions = sets: { contains = path: lib.any (set: (coerce set).contains path) sets; };
      intersection = a: b: { contains = path: (coerce a).contains path && (coerce b).contains path; };
      gitTracked = root: {
        contains = path: below (toString root) path && !below "${toString root}/.git" path;
      };
      # predicate on { name, type, hasExt } -> folder -> fileset
      fileFilter = predicate: root: {
        contains = path: below (toString root) path && predicate {
          name = baseNameOf path;
          type = (lib.readDir (dirOf path)).${baseNameOf path};
          hasExt = hasExt (baseNameOf path);
        };
      };
      # A folder is kept for the sake of what it holds: none is empty.
      toSource = { root, fileset }:
        let
          kept = path: type:
            if type == "directory"
            then
              let entries = lib.readDir path; in
              lib.any (name: kept "${path}/${name}" entries.${name}) (lib.attrNames entries)
            else (coerce fileset).contains path;
        in
        { outPath = lib.path { name = "source"; path = root; filter = kept; }; };
    };
}
