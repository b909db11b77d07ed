"""Programs compiled for accelerators that are absent, by the vendors' plugins: what `make aot` runs.

`TGX_VENDOR_PACKAGES` names the folder that the plugins are installed in, an environment of their own.
"""
