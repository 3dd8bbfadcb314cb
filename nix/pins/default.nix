# The locks of this folder, with each pin's store path.
#
# { system; bootstrap; toolchain; locks ? ./. } -> {
#   wheels     = { cuda; excludeNewer; x86_64 = [ pin ]; aarch64 = [ pin ]; };
#   userland   = { amd64 = [ pin ]; arm64 = [ pin ]; };   likewise toolchain, toolchainGo
#   bootstrap  = { amd64; arm64; tree = { x86_64 = SHA-256; aarch64; }; };
#   go         = nix/pins/go.json;
#   storeName  = file name -> store name;
#   normalisedHash = requirements file -> SHA-256, as the locks record it;
#   deb        = date of a lock -> entry -> fixed-output derivation;
#   wheel      = entry -> fixed-output derivation;
#   certificates = whom to trust inside a fetching derivation, a PEM file;
#   proxyVariables = what a fetching derivation may know of its surroundings;
# }
#
# A pin is the lock's entry with `path`, its fixed-output derivation; a Debian entry's own
# path, below a mirror, becomes `pool`. Whatever has the hash may put the file in the
# store: tools/prefetch, a binary cache, or the derivation itself, whose builder runs where
# builds may use the network and are told mirrors (trap 7).
{ system, bootstrap, toolchain, locks ? ./. }:

let
  lib = builtins;

  # A lock, if it is whole and not older than the requirements it was made from.
  read = kind:
    let
      file = "nix/pins/${kind}.json";
      lock = lib.fromJSON (lib.readFile (locks + "/${kind}.json"));
      stale = lib.filter
        (name: normalisedHash (locks + "/${name}") != lock.requirements.${name})
        (lib.attrNames (lock.requirements or { }));
    in
    if !lib.pathExists (locks + "/${kind}.json")
    then throw "${file} is missing; next: tools/lock ${kind}"
    else if lock.format or null != 1
    then throw "${file} has a format this version does not know (expected 1); next: tools/lock ${kind}"
    else if stale != [ ]
    then throw "${file} is older than its requirements (${toString stale}); next: tools/lock ${kind}"
    else lock;

  # Checksum of a requirements file without comments, blanks and line endings: the same
  # as apertus_image.pins.requirements.sha256 (case 48).
  normalisedHash = file:
    let
      lines = lib.filter lib.isString (lib.split "\r?\n" (lib.readFile file));
      content = line: lib.head (lib.split "#" line);
      strip = line: lib.head (lib.match "[[:space:]]*(([^[:space:]].*)?[^[:space:]])?[[:space:]]*" line);
      kept = lib.filter (line: line != null) (map (line: strip (content line)) lines);
    in
    lib.hashString "sha256" (lib.concatStringsSep "" (map (line: line + "\n") kept));

  # Names as the store allows them; apertus_image.pins.names.store_name is the same (trap 3).
  storeName = file:
    let
      parts = lib.split "[^0-9A-Za-z+._?=-]" file;
      mapped = lib.concatStringsSep "" (map (part: if lib.isString part then part else "_") parts);
    in
    if lib.substring 0 1 mapped == "."
    then "_" + lib.substring 1 (lib.stringLength mapped) mapped
    else mapped;

  proxyVariables = [ "http_proxy" "https_proxy" "no_proxy" "APERTUS_CA_BUNDLE" ];

  # All inputs are files under a flat SHA-256, so the path follows from name and hash alone.
  fixedOutput = file: sha256: attributes: derivation ({
    name = storeName file;
    inherit system sha256;
    outputHashMode = "flat";
    outputHashAlgo = "sha256";
    outputHash = sha256;
    preferLocalBuild = true;
  } // attributes);

  # The date is where a snapshot archive is asked for what mirrors have dropped.
  deb = date: entry: fixedOutput (baseNameOf entry.path) entry.sha256 {
    builder = "${bootstrap}/bin/bash";
    args = [ ../toolchain/fetch-deb.sh ];
    busybox = "${bootstrap}/bin/busybox";
    pool = entry.path;
    inherit date;
    inherit (entry) size;
    impureEnvVars = proxyVariables ++ [ "APERTUS_DEBIAN_MIRRORS" "APERTUS_DEBIAN_SNAPSHOT" ];
  };

  # Whom to trust where the machine's own bundle is not: in the sandbox.
  certificates =
    let package = lib.head (lib.filter (pin: pin.name == "ca-certificates") (debian "toolchain").amd64); in
    (import ../toolchain/shell.nix { inherit system bootstrap; }).run "ca-certificates.crt"
      { deb = package.path; }
      ''
        dpkg-deb -x "$deb" root
        cat root/usr/share/ca-certificates/mozilla/*.crt >"$out"
      '';

  wheel = entry: fixedOutput entry.file entry.sha256 {
    builder = "${toolchain}/bin/python3";
    # As in nix/builder.nix: the spec's file is known to the environment alone.
    args = [
      "-c"
      ''
        import os, sys
        arguments = ["-m", "apertus_image.fetch.builder", os.environ["specPath"], os.environ["out"]]
        os.execv(sys.executable, [sys.executable, *arguments])
      ''
    ];
    spec = lib.toJSON {
      kind = "wheel";
      inherit (entry) name file sha256 size;
      certificates = "${certificates}";
    };
    passAsFile = [ "spec" ];
    PATH = "${toolchain}/bin"; # where Python, called by its bare name, looks for itself
    # File by file: an edit to prefetch must not change what depends on the wheels (trap 4).
    PYTHONPATH = import ../library.nix
      (map (file: "fetch/${file}.py") [ "__init__" "builder" "download" "index" "web" ]);
    PYTHONSAFEPATH = "1";
    PYTHONNOUSERSITE = "1";
    PYTHONDONTWRITEBYTECODE = "1";
    impureEnvVars = proxyVariables ++ [ "APERTUS_PYPI_INDEX" ];
  };

  debian = kind:
    let
      lock = read kind;
      # Pinned anew by `tools/lock debian --gone`, an entry is of another release than the lock.
      pin = entry: entry // { pool = entry.path; path = deb (entry.date or lock.date) entry; };
    in
    lib.mapAttrs (_: map pin) { inherit (lock) amd64 arm64; };
in
{
  inherit storeName proxyVariables certificates deb wheel normalisedHash;

  wheels =
    let
      lock = read "wheels";
      pin = entry: entry // { path = wheel entry; };
    in
    {
      cuda = lock.cuda or null;
      excludeNewer = lock.exclude_newer;
      x86_64 = map pin lock.x86_64;
      aarch64 = map pin lock.aarch64;
    };

  userland = debian "userland";
  toolchain = debian "toolchain";
  toolchainGo = debian "toolchain-go";
  bootstrap = debian "bootstrap" // { inherit (read "bootstrap") tree; };
  go = read "go";
}
