"""The version of this Gnomon."""

VERSION = "0.1.0"
