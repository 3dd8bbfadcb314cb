# Which wheels share a layer: from those that change seldom up to those that change often,
# each layer under 2 GiB. A wheel that no group names goes to the group `libraries`.
wheels:

let
  lib = builtins;

  named = [
    {
      name = "cuda-math";
      wheels = [
        "nvidia-cublas" "nvidia-cufft" "nvidia-curand" "nvidia-cusolver" "nvidia-cusparse"
        "nvidia-cusparselt-cu13"
      ];
    }
    {
      name = "cuda";
      wheels = [
        "cuda-bindings" "cuda-core" "cuda-pathfinder" "cuda-python" "cuda-toolkit"
        "nvidia-cuda-cccl" "nvidia-cuda-crt" "nvidia-cuda-cupti" "nvidia-cuda-nvcc"
        "nvidia-cuda-nvrtc" "nvidia-cuda-runtime" "nvidia-cudnn-cu13" "nvidia-cudnn-frontend"
        "nvidia-cufile" "nvidia-ml-py" "nvidia-nccl-cu13" "nvidia-nvjitlink"
        "nvidia-nvshmem-cu13" "nvidia-nvtx" "nvidia-nvvm"
      ];
    }
    { name = "torch"; wheels = [ "torch" "torchaudio" "torchcodec" "torchvision" "torch-c-dlpack-ext" ]; }
    {
      name = "compilers";
      wheels = [
        "triton" "tokenspeed-triton" "tilelang" "llvmlite" "numba" "z3-solver"
        "nvidia-cutlass-dsl" "nvidia-cutlass-dsl-libs-base" "nvidia-cutlass-dsl-libs-cu13"
      ];
    }
    { name = "flashinfer-cubin"; wheels = [ "flashinfer-cubin" ]; }
  ];
  top = [
    { name = "flashinfer"; wheels = [ "flashinfer-python" ]; }
    { name = "vllm"; wheels = [ "vllm" ]; }
  ];

  present = map (wheel: wheel.name) wheels;
  placed = lib.concatMap (group: group.wheels) (named ++ top);
  unknown = lib.filter (name: !lib.elem name present) placed;
  rest = { name = "libraries"; wheels = lib.filter (name: !lib.elem name placed) present; };
in
if unknown != [ ]
then throw "nix/groups.nix names wheels that the lock does not have: ${toString unknown}"
else named ++ [ rest ] ++ top
