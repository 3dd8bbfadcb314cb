# The project for one build system: what the flake offers, put together.
#
# application: a tree for a layer of its own on top, prepared by release/source.py or bare;
# null for none.
{ system, nix2container, application ? null }:

let
  lib = builtins;

  machines = import ./machines.nix;
  native = lib.head (lib.filter (machine: machine.system == system) (lib.attrValues machines));

  pins = import ./pins { inherit system; inherit (world) toolchain bootstrap; };
  world = import ./toolchain { inherit system pins; };
  builder = import ./builder.nix { inherit system; inherit (world) toolchain; };

  source = import (nix2container + "/default.nix") { inherit (world) pkgs; };
  maker = source.nix2container;

  # What goes into each image. The smoke image takes the same path with little in it.
  groups = import ./groups.nix;
  patches = import ./patches;
  smoke = lib.fromJSON (lib.readFile ./pins/smoke.json);

  selections = machine: {
    apertus-image = {
      name = "apertus-image";
      version = "0.25.1";
      description = "vLLM 0.25.1 with backports, CUDA 13.0, Debian 13 userland";
      inherit (pins.wheels) cuda;
      selection = {
        debian = pins.userland.${machine.debian};
        wheels = pins.wheels.${machine.name};
        groups = groups (pins.wheels.${machine.name});
        patches = patches.vllm;
      };
    };
    smoke-image = rec {
      name = "smoke-image";
      version = "0.25.1";
      description = "A few small wheels by the same path as apertus-image, for tests";
      cuda = null;
      selection = {
        debian = lib.filter (deb: lib.elem deb.name smoke.debian) pins.userland.${machine.debian};
        wheels = lib.filter (wheel: lib.elem wheel.name smoke.wheels) pins.wheels.${machine.name};
        groups = [{ name = "all"; wheels = map (wheel: wheel.name) selection.wheels; }];
        patches = patches.smoke;
      };
    };
  };

  imageFor = machine: name: import ./image.nix
    {
      inherit builder pins machine application;
      nix2container = maker;
      userland = import ./userland { inherit builder machine; };
      python = import ./python { inherit builder machine; };
    }
    (selections machine).${name};

  # A list of all pinned inputs: one garbage-collector root for the lot (trap 9).
  inputsFor = machine: name:
    let
      inherit ((selections machine).${name}) selection;
      pinned = map (pin: pin.path)
        (selection.debian ++ selection.wheels ++ pins.toolchain.${native.debian});
      # Where nix2container is the maker: its source, its program, and what that is made by.
      own =
        if source ? nix2container-bin
        then [ "${nix2container}" source.nix2container-bin source.nix2container-bin.goModules world.go ]
          ++ map (pin: pin.path) pins.toolchainGo.${native.debian}
        else [ ];
      brought = if application == null then [ ] else [ "${application}" ];
    in
    world.pkgs.writeText "inputs-${name}-${machine.name}"
      (lib.concatStringsSep "\n" (map (path: "${path}") (pinned ++ own ++ brought ++ [ world.bootstrap ])) + "\n");

  full = lib.mapAttrs (_: machine: imageFor machine "apertus-image") machines;
  small = lib.mapAttrs (_: machine: imageFor machine "smoke-image") machines;

  byMachine = f: lib.listToAttrs (lib.concatMap f (lib.attrValues machines));
in
{
  packages = {
    apertus-image = full.${native.name}.json;
    apertus-image-lint = full.${native.name}.lint;
    smoke-image = small.${native.name}.json;
    smoke-image-lint = small.${native.name}.lint;
    inputs-apertus-image = inputsFor native "apertus-image";
    inputs-smoke-image = inputsFor native "smoke-image";
    inherit (world) toolchain go;
    default = full.${native.name}.json;
  } // (if source ? nix2container-bin then { nix2container = source.nix2container-bin; } else { })
  // byMachine (machine: [
    { name = "apertus-image-${machine.name}"; value = full.${machine.name}.json; }
    { name = "apertus-image-${machine.name}-lint"; value = full.${machine.name}.lint; }
    { name = "smoke-image-${machine.name}"; value = small.${machine.name}.json; }
    { name = "smoke-image-${machine.name}-lint"; value = small.${machine.name}.lint; }
    { name = "inputs-apertus-image-${machine.name}"; value = inputsFor machine "apertus-image"; }
    { name = "inputs-smoke-image-${machine.name}"; value = inputsFor machine "smoke-image"; }
  ]);

  checks = {
    smoke-image = small.${native.name}.json;
    smoke-image-lint = small.${native.name}.lint;
  };
}
