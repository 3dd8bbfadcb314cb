# Wheels -> one environment at /opt/apertus, as disjoint trees, a layer each.
{ builder, machine }:

{ wheels      # entries of the lock, each with its fixed-output path
, groups      # ordered: { name; wheels = names; }
, patches     # folders of nix/patches in order, all for one wheel
, hasCuda
}:

let
  lib = builtins;
  prefix = "/opt/apertus";
  python = "3.13";

  byName = lib.listToAttrs (map (wheel: { inherit (wheel) name; value = wheel; }) wheels);
  waivers = lib.fromJSON (lib.readFile ../pins/waivers.json);

  recordWaivers = lib.fromJSON (lib.readFile ../pins/record-waivers.json);

  groupTree = group: builder {
    name = "python-${group.name}-${machine.name}";
    module = "wheel.build";
    rooms = [ "tree" "bytecode" "wheel" ];
    manifest = true;
    spec = {
      inherit prefix python;
      machine = machine.name;
      wheels = map (name: byName.${name}) group.wheels;
      # Only what concerns this group, so that another's waiver does not rebuild it.
      waivers = lib.filter
        (waiver: lib.any (name: lib.elem name group.wheels) ([ waiver.keep ] ++ waiver.drop))
        waivers;
      record_waivers = lib.filter (waiver: lib.elem waiver.wheel group.wheels) recordWaivers;
    };
  };
  built = map (group: { inherit (group) name wheels; tree = groupTree group; }) groups;

  glue = builder {
    name = "python-environment-${machine.name}";
    module = "wheel.environment";
    rooms = [ "tree" "bytecode" "wheel" ];
    manifest = true;
    spec = {
      inherit prefix python;
      # Compile caches are set once, for every interpreter (trap 17).
      files = {
        "apertus_cache.py" = lib.readFile ./apertus_cache.py;
        "apertus_cache.pth" = "import apertus_cache\n";
      };
    };
  };

  cuda = builder {
    name = "cuda-completion-${machine.name}";
    module = "elf.cuda";
    rooms = [ "tree" "elf" ];
    manifest = true;
    spec = {
      inherit prefix python;
      machine = machine.name;
      trees = map (group: group.tree) built;
    };
  };

  patched = (lib.head patches).wheel;
  overlay = builder {
    name = "patches-${machine.name}";
    module = "patch.build";
    rooms = [ "tree" "bytecode" "patch" ];
    manifest = true;
    spec = {
      inherit prefix python patches;
      wheel = byName.${patched};
      installed = (lib.head (lib.filter (group: lib.elem patched group.wheels) built)).tree;
    };
  };

  # Over all wheels of the machine, without unpacking: who brings what twice.
  collisions = builder {
    name = "wheel-collisions-${machine.name}";
    module = "wheel.collisions";
    rooms = [ "wheel" ];
    content = false;
    spec = {
      inherit wheels waivers;
      groups = lib.listToAttrs (map (group: { inherit (group) name; value = group.wheels; }) groups);
    };
  };
in
{
  inherit glue overlay collisions;
  groups = built;
  cuda = if hasCuda then [ cuda ] else [ ];
}
