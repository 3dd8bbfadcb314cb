// Prints the config blob of an image JSON, as a push by nix2container stores it.
// record.py builds it inside nix2container's source.
package main

import (
	"fmt"
	"os"

	"github.com/nlewo/nix2container/nix"
)

func main() {
	image, err := nix.NewImageFromFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	blob, err := nix.GetConfigBlob(image)
	if err != nil {
		panic(err)
	}
	fmt.Print(string(blob))
}
