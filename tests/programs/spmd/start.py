"""What the programs of test_spmd.py begin with."""

ROWS, COLUMNS, GRID = "{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}", "{devices=[2,4]<=[8]}"
HALVES = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"
