"""What matching keys is made of: key columns of files, bounds, ranges, and the kernels."""
