"""An image as one SquashFS file, the tree that Enroot's importer would have made of it."""
