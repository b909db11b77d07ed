package sharding

import "testing"

func TestShardy(t *testing.T) {
	for _, c := range []struct {
		text string
		open []int64
		want string
	}{
		{"{replicated}", nil, `@mesh, [{}, {}]`},
		{"{replicated}", []int64{1}, `@mesh, [{}, {?}]`},
		{"{devices=[2,4]<=[8]}", nil, `@mesh, [{"a0"}, {"a1", "a2"}]`},
		{"{devices=[4,2]<=[2,4]T(1,0)}", nil, `@mesh, [{"a1", "a2"}, {"a0"}]`},
		{"{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", []int64{1}, `@mesh, [{"a1", "a2"}, {?}]`},
		{"{devices=[1,2,4]<=[8] last_tile_dim_replicate}", nil, `@mesh, [{}, {"a0"}]`},
		{"{devices=[1,6]<=[6]}", nil, `@mesh, [{}, {"a0", "a1"}]`},
		{"{devices=[1,8]<=[8]}", nil, `@mesh, [{}, {"a0", "a1", "a2"}]`},
		{"{devices=[3,2]<=[2,3]T(1,0)}", nil, `@mesh, [{"a1"}, {"a0"}]`},
		{"{devices=[3,2]<=[6]}", nil, ""}, // the mesh is of 2 times 3
		{"{devices=[8,1]<=[8]}", nil, ""}, // 12 is not divided evenly
		{"{devices=[4,1]3,2,1,0}", nil, ""},
		{"{devices=[4,1]0,1,3,2}", nil, ""},
		{"{maximal device=0}", nil, ""},
		{"{manual}", nil, ""},
	} {
		if got, ok := parsed(t, c.text).Shardy([]int64{12, 24}, c.open); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}
