"""What the file system a folder is on does to the files in it: purging, striping."""
