# What the tests of nix/ look at; `locks` is a folder with lock files.
{ system ? builtins.currentSystem, locks ? ../../nix/pins, name ? "x", sha256 ? "", size ? 0 }:

let
  pins = import ../../nix/pins { inherit system locks; inherit (world) toolchain bootstrap; };
  world = import ../../nix/toolchain { inherit system pins; };
  builder = import ../../nix/builder.nix { inherit system; inherit (world) toolchain; };
  shell = import ../../nix/toolchain/shell.nix { inherit system; inherit (world) bootstrap; };
in
{
  inherit pins world;

  deb = pins.deb "Sat, 21 Nov 2026 09:15:44 UTC"
    { path = "pool/main/x/${name}"; inherit sha256 size; };
  wheel = pins.wheel { name = "x"; file = name; inherit sha256 size; };
  unknownBootstrap = import ../../nix/toolchain/bootstrap.nix { inherit system; hash = sha256; };

  # What of the host a builder can see.
  host = shell.run "host-programs" { } ''
    for folder in /bin /sbin /usr /lib /lib64 /opt /home /root; do
      if [ -e "$folder" ]; then
        find "$folder" >>"$out"
      fi
    done
    touch "$out"
  '';

  # The toolchain's Python as a builder meets it: nothing in the environment.
  imports = shell.run "library-imports" { nativeBuildInputs = [ world.toolchain ]; } ''
    env -i "$(command -v python3)" -s -P ${./imports.py} >"$out"
  '';

  # A build that has to be ended.
  endless = shell.run "endless" { } "echo begun; while sleep 1; do :; done";

  # nix/builder.nix with real modules: one with a manifest, one whose output mentions a
  # store path.
  identity = builder {
    name = "content-identity";
    module = "image.identity";
    rooms = [ "tree" "image" ];
    manifest = true;
    spec.manifests = [ (world.pkgs.writeText "manifest" "") ];
  };
  mention = { content }: builder {
    name = "mention";
    module = "image.gate";
    rooms = [ "tree" "image" ];
    inherit content;
    spec = {
      image = world.pkgs.writeText "image.json"
        (builtins.toJSON { layers = [ ]; mention = world.bootstrap; });
      layers = [ ];
      limits = { bytes = 1; layers = 1; };
    };
  };

  # nix2container's own tree of odd names (the recorded vector), laid out by `maker`.
  vector = { maker }:
    let
      tree = world.pkgs.runCommand "vector" { } ''
        repeat() { local text= i; for ((i = 0; i < $2; i++)); do text+=$1; done; printf %s "$text"; }
        mkdir -p "$out/etc" "$out/opt"
        cd "$out"
        echo hi >etc/x
        chmod +x etc/x
        ln -s x etc/l
        cd opt
        printf é >é
        folder=$(repeat a 60)/$(repeat b 60)
        mkdir -p "$folder"
        echo q >"$folder/f"
        echo z >"$(repeat n 101)"
        echo z >"$(repeat m 200)"
        ln -s "$(repeat t 120)" longlink
        folder=.
        for number in 0 1 2 3 4 5 6; do
          folder=$folder/d0$number$(repeat x 40)
        done
        mkdir -p "$folder"
        echo deep >"$folder/file"
      '';
    in
    ((import (maker + "/default.nix") { inherit (world) pkgs; }).nix2container).buildImage {
      name = "vector";
      tag = "1";
      copyToRoot = [ tree ];
      config.Cmd = [ "/etc/x" ];
      meta.description = "not in the derivation";
    };
}
