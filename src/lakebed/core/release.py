"""The release of this package, which executors compare with the driver's."""

VERSION = "0.1.0.dev0"
