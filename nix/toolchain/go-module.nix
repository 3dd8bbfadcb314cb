# nixpkgs' buildGoModule as far as nix2container needs it: static programs from a module
# and its vendored dependencies, without C. Upstream's tests are not run.
#
# { pname; version; src; vendorHash; ldflags ? [ ]; } -> derivation with bin/
{ runCommand, go, certificates, proxyVariables }:

{ pname, version, src, vendorHash, ldflags ? [ ] }:

let
  # Nothing of the surroundings: no settings file, no other toolchain, no checksum service
  # (go.sum in the source and vendorHash are the checks).
  environment = {
    CGO_ENABLED = "0";
    GOENV = "off";
    GOTOOLCHAIN = "local";
    GOSUMDB = "off";
    GOTELEMETRY = "off";
  };

  # `go mod vendor`, checked by upstream's own hash. tools/prefetch adds it under this
  # name; the derivation fetches for itself where builds may use the network.
  vendor = runCommand "${pname}-${version}-go-modules"
    (environment // {
      inherit src certificates;
      nativeBuildInputs = [ go ];
      outputHashMode = "recursive";
      outputHashAlgo = "sha256";
      outputHash = vendorHash;
      impureEnvVars = proxyVariables ++ [ "APERTUS_GOPROXY" ];
    }) ''
    if [ -z "''${APERTUS_GOPROXY:-}" ]; then
      echo "error: the Go modules of ${pname} are not in the store, and this build was told no proxy" >&2
      echo "  next:     run: tools/prefetch" >&2
      exit 1
    fi
    export HOME=$PWD GOPATH=$PWD/go GOCACHE=$PWD/cache GOFLAGS=-modcacherw GOPROXY=$APERTUS_GOPROXY
    # The machine's own bundle may lie where the sandbox has nothing.
    export SSL_CERT_FILE=$certificates
    if [ -r "''${APERTUS_CA_BUNDLE:-}" ]; then
      SSL_CERT_FILE=$APERTUS_CA_BUNDLE
    fi
    cp -r "$src" source
    chmod -R u+w source
    cd source
    if ! go mod vendor; then
      echo "error: go could not fetch the modules of ${pname}" >&2
      echo "  next:     run: tools/prefetch" >&2
      exit 1
    fi
    cp -r vendor "$out"
  '';
in
runCommand "${pname}-${version}"
  (environment // {
    inherit src;
    nativeBuildInputs = [ go ];
    passthru = { inherit src vendor; goModules = vendor; };
    # Static, with paths trimmed: it mentions neither Go nor its source.
    allowedReferences = [ ];
    ldflags = toString ldflags;
  }) ''
  export HOME=$PWD GOPATH=$PWD/go GOCACHE=$PWD/cache GOFLAGS=-mod=vendor
  cp -r "$src" source
  chmod -R u+w source
  cp -r ${vendor} source/vendor
  cd source
  mkdir -p "$out/bin"
  GOBIN=$out/bin go install -p "$NIX_BUILD_CORES" -trimpath -buildvcs=false \
    -ldflags "-buildid= $ldflags" ./...
''
