# The build world: what runs on the build machine to make an image, all of it pinned
# Debian 13 packages, nothing of the host (design decision 3, trap 6).
#
# { system; pins; } -> {
#   bootstrap   static bash and busybox, put into the store by tools/prefetch
#   toolchain   Python with the library's dependencies, jq, squashfs-tools, zstd, patchelf
#   go          Debian's Go; only nix2container needs it
#   pkgs        the few functions of nixpkgs that nix2container's default.nix uses
# }
{ system, pins }:

let
  lib = builtins;
  machines = lib.attrValues (import ../machines.nix);
  machine = lib.head (lib.filter (machine: machine.system == system) machines);
  debs = packages: map (pin: pin.path) packages.${machine.debian};

  bootstrap = import ./bootstrap.nix { inherit system; hash = pins.bootstrap.tree.${machine.name}; };
  shell = import ./shell.nix { inherit system bootstrap; };

  toolchain = shell.run "apertus-toolchain"
    {
      debs = debs pins.toolchain;
      inherit (pins) certificates;
      triplet = "${machine.name}-linux-gnu";
      programs = [ "bash" "jq" "mksquashfs" "patchelf" "python3.13" "unsquashfs" "zstd" ];
      allowedReferences = [ "out" ];
    }
    (lib.readFile ./unpack.sh);

  # Go's programs are static; its sources are a package of their own.
  go = shell.run "apertus-go"
    {
      debs = map (pin: pin.path)
        (lib.filter (pin: lib.match "golang-[0-9.]+-(go|src)" pin.name != null)
          pins.toolchainGo.${machine.debian});
      allowedReferences = [ "out" ];
    }
    ''
      for deb in $debs; do
        dpkg-deb -x "$deb" root
      done
      mkdir -p "$out"
      cp -a root/usr/lib root/usr/share "$out"
      rm -rf "$out"/share/{doc,lintian,man}
      ln -s "$(cd "$out" && echo lib/go-*/bin)" "$out/bin"
      find "$out" -type l ! -exec test -e {} \; -exec rm {} +
    '';
in
{
  inherit bootstrap toolchain go;
  pkgs = import ./pkgs.nix {
    inherit system machine shell toolchain go;
    inherit (pins) certificates proxyVariables;
  };
}
