# One image, from the trees up: layers stable to volatile, then the config.
#
# Every path lies in exactly one layer. The one exception is the overlay of patched
# files on top, so that a one-line change to a patch moves kilobytes. image/gate.py
# proves it before the image gets its name.
{ builder, nix2container, pins, userland, python, machine
, application ? null   # the user's own code, as a tree
}:

{ name            # image name
, selection       # what goes in: { debian; wheels; groups; patches; } (nix/default.nix)
, version         # of the image, for its label
, description
, cuda            # the CUDA major.minor the wheels were locked to, null without CUDA
}:

let
  lib = builtins;

  root = userland { inherit (selection) debian; };
  environment = python { inherit (selection) wheels groups patches; hasCuda = cuda != null; };

  # What goes into which layer, from the lowest up.
  contents =
    [ { name = "userland"; trees = [ root ]; } ]
    ++ map (group: { name = "python-${group.name}"; trees = [ group.tree ]; }) environment.groups
    ++ [
      { name = "environment"; trees = [ environment.glue ] ++ environment.cuda ++ [ loaderCache ]; }
      { name = "patches"; trees = [ environment.overlay ]; overlay = true; }
    ]
    ++ (if application == null then [ ] else [ { name = "source"; trees = [ source ]; } ]);

  # The identity changes with every content, so it lies where most changes do.
  top = (lib.elemAt contents (lib.length contents - 1)).name;
  described = map
    (layer: if layer.name == top then layer // { trees = layer.trees ++ [ identity ]; } else layer)
    contents;

  # Without bytecode: it would be unchecked, and users edit their code in place in a writable
  # container, where the old code would go on running (trap 14).
  source = builder {
    name = "application-source";
    module = "application.build";
    rooms = [ "tree" "application" ];
    manifest = true;
    spec.source = "${application}";
  };

  # The loader's cache over all libraries: no target program runs to make it.
  loaderCache = builder {
    name = "loader-cache";
    module = "elf.ldcache";
    rooms = [ "tree" "elf" ];
    manifest = true;
    spec = {
      machine = machine.name;
      roots = [ root ] ++ map (group: group.tree) environment.groups
        ++ [ environment.glue ] ++ environment.cuda;
    };
  };

  # Over the manifests of all else, so that compile caches can be kept apart.
  identity = builder {
    name = "content-identity";
    module = "image.identity";
    rooms = [ "tree" "image" ];
    manifest = true;
    spec.manifests = map (tree: tree.manifest) (lib.concatMap (layer: layer.trees) contents);
  };

  layer = { name, trees, ... }: nix2container.buildLayer {
    copyToRoot = map (tree: tree.out) trees;
    perms = if lib.elem root trees then permissions else [ ];
    metadata = { created_by = "apertus-image: ${name}"; };
  };

  # The store keeps only the executable bit; what must differ is said here.
  permissions = [
    { path = root.out; regex = "^${root.out}/(var/)?tmp$"; mode = "1777"; }
    { path = root.out; regex = "^${root.out}/root$"; mode = "0700"; }
  ];

  image = nix2container.buildImage {
    inherit name config;
    tag = version;
    arch = machine.oci;
    layers = map layer described;
    # A function of the pins: a clock here would give every build another image (trap 16).
    created = "${pins.wheels.excludeNewer}T00:00:00Z";
  };

  config = {
    Cmd = [ "/bin/bash" ];
    WorkingDir = "/root";
    Env = [
      "PATH=/opt/apertus/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
      "LANG=C.UTF-8"
    ] ++ (if cuda == null then [ ] else [
      "CUDA_HOME=/usr/local/cuda"
      "NVIDIA_VISIBLE_DEVICES=all"
      "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
      # An older driver fails when the container starts, not in a kernel (trap 18).
      "NVIDIA_REQUIRE_CUDA=cuda>=${cuda}"
    ]);
    # No commit and no clock: two commits with one content are one image (trap 16).
    Labels = {
      "org.opencontainers.image.title" = name;
      "org.opencontainers.image.version" = version;
      "org.opencontainers.image.description" = description;
      "org.opencontainers.image.vendor" = "Swiss AI Initiative";
    };
  };
in
rec {
  inherit described;

  # The image JSON, once the gate has passed it.
  json = builder {
    name = "${name}-${machine.name}.json";
    module = "image.gate";
    rooms = [ "tree" "image" ];
    content = false;
    spec = {
      image = image;
      collisions = environment.collisions;
      limits = { bytes = 2147483648; layers = 40; };
      layers = map
        (layer: {
          inherit (layer) name;
          overlay = layer.overlay or false;
          trees = map (tree: { path = tree.out; inherit (tree) manifest; }) layer.trees;
        })
        described;
    };
  };

  # The rootfs lint; not a flake check, which would build 9 GB twice (trap 12).
  lint = builder {
    name = "${name}-${machine.name}-lint";
    module = "lint.build";
    rooms = [ "tree" "bytecode" "elf" "lint" ];
    content = false;
    spec = {
      machine = machine.name;
      glibc = "2.41";
      cuda = cuda != null;
      # They are about wheels that only the full image has.
      waivers = if cuda == null then [ ] else lib.fromJSON (lib.readFile ./pins/lint-waivers.json);
      layers = map
        (layer: {
          inherit (layer) name;
          trees = map (tree: tree.out) layer.trees;
        })
        described;
    };
  };
}
