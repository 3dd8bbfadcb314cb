{
  description = "Reproducible GPU images for HPC: vLLM from pinned inputs, bit for bit";

  # The source alone: nix/toolchain gives its default.nix the few functions it uses.
  # Without GitHub, tools/build puts nix/emitter in its place (--override-input).
  inputs.nix2container = {
    url = "github:nlewo/nix2container/20d339590c3c36252514a57b0241c47bcd8a08ce";
    flake = false;
  };

  # Your own code in the image: empty here, since following the root gives the flake itself.
  # tools/build --source puts a checkout in its place without the lock; a site that wants one
  # in the lock writes `url = "git+…?submodules=1"` instead of `follows`.
  inputs.source = {
    follows = "";
    flake = false; # of what takes its place
  };

  outputs = { self, nix2container, source }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      perSystem = f: builtins.listToAttrs
        (map (system: { name = system; value = f (import ./nix { inherit system nix2container application; }); }) systems);
      application = if source.outPath == self.outPath then null else source;
    in
    {
      packages = perSystem (project: project.packages);
      checks = perSystem (project: project.checks);
    };
}
