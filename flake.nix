{
  description = "Reproducible GPU images for HPC: vLLM from pinned inputs, bit for bit";

  # The source alone: nix/toolchain gives its default.nix the few functions it uses.
  # Without GitHub, tools/build puts nix/emitter in its place (--override-input).
  inputs.nix2container = {
    url = "github:nlewo/nix2container/20d339590c3c36252514a57b0241c47bcd8a08ce";
    flake = false;
  };

  outputs = { self, nix2container }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      perSystem = f: builtins.listToAttrs
        (map (system: { name = system; value = f (import ./nix { inherit system nix2container; }); }) systems);
    in
    {
      packages = perSystem (project: project.packages);
      checks = perSystem (project: project.checks);
    };
}
