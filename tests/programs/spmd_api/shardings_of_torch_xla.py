"""Shardings of torch xla: run by test_spmd_api.py."""

import numpy as np
from raises import raises

import torch_go_xla.distributed.spmd as xs
from torch_go_xla import _XLAC

S, T = _XLAC.OpSharding, xs.ShardingType
ids = np.arange(8)
for text, args in [
    ("{devices=[2,4]0,1,2,3,4,5,6,7}", (ids.reshape(2, 4).tolist(), [], [], int(T.TILED))),
    (
        "{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}",
        ([], [[0], [1]], [[0, 2, 4, 6], [1, 3, 5, 7]], T.PARTIAL),
    ),
    ("{devices=[4,2]0,4,1,5,2,6,3,7}", ([4, 2], [2, 4], [1, 0], [])),
    ("{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}", ([4, 1, 2], [2, 4], [1, 0], [T.REPLICATED])),
    ("{replicated}", ([], [], [], T.REPLICATED)),
    ("{replicated}", ([[1]], [], [], T.TILED)),
    ("{manual}", ([], [], [], T.MANUAL)),
    ("{maximal device=3}", ([3], [], [], T.MAXIMAL)),
]:
    assert str(S(*args)) == text and S.parse(text) == S(*args), (text, S(*args))
assert str(S.parse("{devices=[4,2]<=[2,4]T(1,0)}")) == "{devices=[4,2]0,4,1,5,2,6,3,7}"
assert S.parse("{devices=[2,1,4]<=[8] last_tile_dim_replicate}").copies == 4
raises(ValueError, "rubbish", S.parse, "rubbish")
