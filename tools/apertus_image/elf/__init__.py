"""ELF files: reading what the loader reads, the loader's cache, CUDA's missing parts."""
