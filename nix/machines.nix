# The machines an image can be for, by the name their kernel gives (uname -m).
# tools/apertus_image/tree/machine.py holds the same table for Python; a test compares them.
{
  x86_64 = { name = "x86_64"; system = "x86_64-linux"; debian = "amd64"; oci = "amd64"; };
  aarch64 = { name = "aarch64"; system = "aarch64-linux"; debian = "arm64"; oci = "arm64"; };
}
