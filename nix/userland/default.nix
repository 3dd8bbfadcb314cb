# The target's root: Debian 13 packages, unpacked and merged; no maintainer script runs.
{ builder, machine }:

{ debian }:   # entries of the lock, each with its fixed-output path

builder {
  name = "userland-${machine.name}";
  module = "debian.userland";
  rooms = [ "tree" "bytecode" "debian" ];
  manifest = true;
  spec = {
    machine = machine.name;
    python = "3.13";
    debs = debian;
  };
}
