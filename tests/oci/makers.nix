# One description of layers and an image, given to either maker: nix2container's own
# default.nix, or nix/emitter. Both must write the same files.
{ maker ? ../../nix/emitter }:

let
  system = builtins.currentSystem;
  pins = import ../../nix/pins { inherit system; inherit (world) toolchain bootstrap; };
  world = import ../../nix/toolchain { inherit system pins; };
  inherit (world) pkgs;
  inherit ((import maker { inherit pkgs; }).nix2container) buildImage buildLayer;

  library = pkgs.writeText "library" "a library\n";
  program = pkgs.writeText "program" "uses ${library}\n";
  other = pkgs.writeText "other" "uses ${program} and ${library}\n";
  ignored = pkgs.writeText "ignored" "mentions ${library}\n";
  tree = name: script: pkgs.runCommand name { } "mkdir $out\ncd $out\n${script}";

  root = tree "root" "mkdir -p etc tmp; echo a >etc/a; ln -s ../etc/a tmp/link";
  more = tree "more" "mkdir -p opt; echo b >opt/b; echo ${other} >opt/uses";

  below = buildLayer { deps = [ library program ]; };
  above = buildLayer {
    deps = [ other library ignored ];
    copyToRoot = [ root more ];
    ignore = ignored;
    layers = [ below ];
    perms = [{ path = root; regex = "^${root}/tmp$"; mode = "1777"; uid = 3; uname = "x"; }];
    # Not in the order that Go writes them in.
    metadata = { author = "é <a@b>"; comment = "c & d"; created_by = "by"; };
  };
  image = buildImage {
    name = "Registry.Example/Some/Name";
    config = { Labels = { "b" = "<&>"; "a" = "é"; }; Env = [ "A=1" ]; Cmd = [ "/bin/sh" ]; };
    layers = [ above ];
    copyToRoot = [ (tree "top" "echo t >top") ];
    arch = "arm64";
    created = "2026-07-15T00:00:00Z";
  };
  tagged = buildImage { name = "n"; tag = "t"; arch = "amd64"; };

  # Each layer above all before it.
  chain = builtins.foldl'
    (before: number: before ++ [
      (buildLayer {
        deps = [ (pkgs.writeText "file-${toString number}" "${toString number}\n") ];
        layers = before;
      })
    ]) [ ]
    (builtins.genList (number: number) 14);
in
{
  chained = buildImage { name = "n"; tag = "t"; arch = "amd64"; layers = chain; };
  nestedInChain = builtins.length (builtins.elemAt chain 13).nestedLayers;

  inherit below above image tagged;
  needed = buildLayer { deps = [ other ]; ignore = library; };
  facts = {
    names = map (each: each.name) [ below above image tagged ];
    nested = map toString (map (layer: layer.name) above.nestedLayers);
    inherit (image) imageName;
    tags = [ tagged.imageTag tagged.imageRefUnsafe ];
    tagIsItsHash = image.imageTag == builtins.substring 11 32 "${image}";
  };

  # What the emitter refuses, each by name.
  refused = {
    layers = buildLayer { deps = [ library ]; maxLayers = 2; };
    writable = buildLayer { deps = [ library ]; reproducible = false; };
    base = buildImage { name = "n"; arch = "amd64"; fromImage = library; };
    database = buildImage { name = "n"; arch = "amd64"; initializeNixDatabase = true; };
    contents = buildLayer { contents = root; };
    arch = buildImage { name = "n"; };
  };
}
