"""Version of the package: that of Polyplane."""

VERSION = "0.1.0"
