# What nix2container's default.nix asks of nixpkgs, made of the build toolchain.
#
# It is evaluated lazily, so only what buildLayer and buildImage use is here; skopeo and
# the copy-to commands are not (tools/ has its own). `apertus` is for nix/emitter, which
# takes nix2container's place where its source cannot be had.
{ system, machine, shell, toolchain, go, certificates, proxyVariables }:

let
  lib = builtins;

  # As in nixpkgs: passthru and meta are on the result and not in the derivation.
  runCommand = name: attributes: script:
    shell.run name (removeAttrs attributes [ "passthru" "meta" ] // { preferLocalBuild = true; }) script
    // (attributes.passthru or { }) // { meta = attributes.meta or { }; };
in
{
  inherit runCommand;
  lib = import ./lib.nix;
  runCommandLocal = runCommand;

  # The text may refer to derivations, so builtins.toFile will not do.
  writeText = name: text: runCommand name { inherit text; passAsFile = [ "text" ]; } ''
    cp "$textPath" "$out"
  '';

  buildGoModule = import ./go-module.nix { inherit runCommand go certificates proxyVariables; };

  # The build machine's; an image for another passes `arch` itself.
  go = { GOARCH = machine.oci; };
  jq = toolchain;
  stdenv.isDarwin = false;

  apertus.emit = import ../builder.nix { inherit system toolchain; };
}
