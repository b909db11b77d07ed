"""Holds the library and the modules that the build generates; only this file is kept in version control."""
