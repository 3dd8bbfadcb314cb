# The drop-in for nix2container where its source cannot be had: the same two functions
# over the project's own tar writer, the same JSON, byte for byte.
#
#   nix build … --override-input nix2container path:$PWD/nix/emitter
#
# `pkgs` is nix/toolchain/pkgs.nix; of it, only `lib`, `writeText` and `apertus.emit`
# (nix/builder.nix) are used. Parameters are upstream's. What this project's images do not
# need is refused by name rather than done differently.
{ pkgs }:

let
  l = pkgs.lib // builtins;

  emit = name: attributes: spec: pkgs.apertus.emit (attributes // {
    inherit name spec;
    module = "oci.emit";
    rooms = [ "oci" ];
    content = false;
    preferLocalBuild = true;
  });

  # { WHAT = asked for?; ... } -> value -> value
  refuse = unsupported: value:
    let found = l.filter (what: unsupported.${what}) (l.attrNames unsupported); in
    if found == [ ] then value
    else throw "nix/emitter: not supported: ${l.concatStringsSep ", " found}; next: build with nix2container itself";

  # Layers and those below them, each once, where it comes first. Upstream repeats them, so
  # that the list doubles with each layer of a chain; an image has a layer once all the same.
  withNested = layers:
    let
      key = layer: l.unsafeDiscardStringContext "${layer}";
      add = done: layer:
        if done.seen ? ${key layer} then done
        else { seen = done.seen // { ${key layer} = true; }; list = done.list ++ [ layer ]; };
    in
    (l.foldl' add { seen = { }; list = [ ]; }
      (l.concatMap (layer: layer.nestedLayers) layers ++ layers)).list;

  buildLayer =
    { deps ? [ ]
    , copyToRoot ? null
    , ignore ? null
    , layers ? [ ]
    , reproducible ? true
    , perms ? [ ]
    , maxLayers ? 1
    , metadata ? { created_by = "nix2container"; }
    , contents ? null
    }:
    let
      roots = l.toList (l.defaultTo [ ] copyToRoot);
      paths = deps ++ roots;
      numbered = l.genList (number: "graph${toString number}") (l.length paths);
      nestedLayers = withNested layers;
    in
    refuse
      {
        "contents" = contents != null;
        "reproducible = false" = !reproducible;
        "maxLayers other than 1" = maxLayers != 1;
      }
      (emit "layers.json"
        {
          exportReferencesGraph = l.concatLists
            (l.genList (n: [ (l.elemAt numbered n) (l.elemAt paths n) ]) (l.length paths));
        }
        {
          mode = "layer";
          graphs = numbered;
          ignore = toString ignore;
          rewrites = map (path: { path = "${path}"; regex = "^${path}"; repl = ""; }) roots;
          perms = map (perm: perm // { path = "${perm.path}"; }) perms;
          history = metadata;
          layers = map (layer: "${layer}") layers;
        }
      // { inherit nestedLayers; });

  buildImage =
    { name
    , tag ? null
    , config ? { }
    , layers ? [ ]
    , copyToRoot ? null
    , fromImage ? ""
    , arch ? throw "nix/emitter: arch is not given; next: arch = the target's, amd64 or arm64"
    , perms ? [ ]
    , maxLayers ? 1
    , initializeNixDatabase ? false
    , nixUid ? 0
    , nixGid ? 0
    , created ? "0001-01-01T00:00:00Z"
    , contents ? null
    , meta ? { }
    }:
    let
      imageName = l.toLower name;
      imageTag = l.defaultTo (l.head (l.splitString "-" (baseNameOf image.outPath))) tag;
      configFile = pkgs.writeText "config.json" (l.toJSON config);
      customization = buildLayer {
        inherit copyToRoot perms maxLayers layers;
        deps = [ configFile ];
        ignore = configFile;
      };
      image = emit "image-${baseNameOf name}.json" { } {
        mode = "image";
        config = configFile;
        inherit arch created;
        layers = map (layer: "${layer}") (withNested layers ++ [ customization ]);
      };
    in
    refuse
      {
        "contents" = contents != null;
        "fromImage" = fromImage != "";
        "initializeNixDatabase" = initializeNixDatabase;
      }
      (image // {
        inherit fromImage imageName imageTag meta;
        imageRefUnsafe = l.unsafeDiscardStringContext "${imageName}:${imageTag}";
      });
in
{
  nix2container = { inherit buildImage buildLayer; };
}
