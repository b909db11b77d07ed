package stablehlo_test

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

func dimsCases() []goldenCase {
	var out []goldenCase
	add := func(name string, f func(b *hlo.Builder) hlo.Value) {
		out = append(out, goldenCase{"dims", name, 0, func(b *hlo.Builder) []hlo.Value { return one(f(b)) }})
	}
	add("broadcast_in_dim", func(b *hlo.Builder) hlo.Value { return b.BroadcastInDim(in(b, "f32[3,1]"), ints{4, 5, 3}, ints{2, 1}) })
	add("broadcast", func(b *hlo.Builder) hlo.Value { return b.Broadcast(in(b, "f32[]"), ints{2, 3}) })
	add("reshape", func(b *hlo.Builder) hlo.Value { return b.Reshape(in(b, "f32[2,3]"), ints{3, 1, 2}) })
	add("transpose", func(b *hlo.Builder) hlo.Value { return b.Transpose(in(b, "f32[2,3,4]"), ints{2, 0, 1}) })
	add("slice", func(b *hlo.Builder) hlo.Value {
		return b.Slice(in(b, "f32[7,3]"), ints{1, 0}, ints{6, 2}, ints{2, 1})
	})
	add("slice one dimension", func(b *hlo.Builder) hlo.Value { return b.SliceDim(in(b, "f32[7,3]"), 0, 2, 2, 1) })
	add("dynamic_slice", func(b *hlo.Builder) hlo.Value {
		return b.DynamicSlice(in(b, "f32[7,3]"), []hlo.Value{in(b, "i64[]"), in(b, "i64[]")}, ints{2, 3})
	})
	add("dynamic_slice of rank 0", func(b *hlo.Builder) hlo.Value { return b.DynamicSlice(in(b, "f32[]"), nil, nil) })
	add("dynamic_update_slice", func(b *hlo.Builder) hlo.Value {
		return b.DynamicUpdateSlice(in(b, "f32[7,3]"), in(b, "f32[2,1]"), []hlo.Value{in(b, "i32[]"), in(b, "i32[]")})
	})
	add("pad", func(b *hlo.Builder) hlo.Value {
		return b.Pad(in(b, "f32[2,3]"), in(b, "f32[]"), ints{1, -1}, ints{0, 2}, ints{0, 1})
	})
	add("concatenate", func(b *hlo.Builder) hlo.Value {
		return b.Concatenate(1, in(b, "f32[2,3]"), in(b, "f32[2,0]"), in(b, "f32[2,1]"))
	})
	add("reverse", func(b *hlo.Builder) hlo.Value { return b.Reverse(in(b, "f32[2,3]"), ints{1}) })
	add("gather rows", func(b *hlo.Builder) hlo.Value {
		return b.Gather(in(b, "f32[10,4]"), in(b, "i64[2,3]"), hlo.GatherDims{OffsetDims: ints{2}, CollapsedSliceDims: ints{0}, StartIndexMap: ints{0}, IndexVectorDim: 2, SliceSizes: ints{1, 4}})
	})
	add("gather in batches", func(b *hlo.Builder) hlo.Value {
		return b.Gather(in(b, "f32[5,10]"), in(b, "i32[5,3,1]"), hlo.GatherDims{CollapsedSliceDims: ints{1}, OperandBatchingDims: ints{0},
			StartIndicesBatchingDims: ints{0}, StartIndexMap: ints{1}, IndexVectorDim: 2, SliceSizes: ints{1, 1}, Sorted: true})
	})
	return out
}

func scatterCases() []goldenCase {
	add := func(name string, f func(b *hlo.Builder) []hlo.Value) goldenCase {
		return goldenCase{"scatter", name, 0, f}
	}
	rows := hlo.ScatterDims{UpdateWindowDims: ints{1}, InsertedWindowDims: ints{0}, ScatterDimsToOperandDims: ints{0}, IndexVectorDim: 1}
	return []goldenCase{
		add("scatter", func(b *hlo.Builder) []hlo.Value {
			return b.Scatter([]hlo.Value{in(b, "f32[10,4]")}, in(b, "i64[3]"), []hlo.Value{in(b, "f32[3,4]")}, rows, hlo.CombineAdd)
		}),
		add("scatter two", func(b *hlo.Builder) []hlo.Value {
			d := rows
			d.Unique, d.Sorted = true, true
			return b.Scatter([]hlo.Value{in(b, "f32[10,4]"), in(b, "i32[10,4]")}, in(b, "i64[3]"), []hlo.Value{in(b, "f32[3,4]"), in(b, "i32[3,4]")}, d, hlo.CombineReplace)
		}),
		add("scatter in batches", func(b *hlo.Builder) []hlo.Value {
			return b.Scatter([]hlo.Value{in(b, "f32[5,10]")}, in(b, "i32[5,3,1]"), []hlo.Value{in(b, "f32[5,3]")},
				hlo.ScatterDims{InsertedWindowDims: ints{1}, InputBatchingDims: ints{0}, ScatterIndicesBatchingDims: ints{0}, ScatterDimsToOperandDims: ints{1}, IndexVectorDim: 2}, hlo.CombineMax)
		}),
		add("select_and_scatter", func(b *hlo.Builder) []hlo.Value {
			w := hlo.Window{Dims: ints{1, 2}, Strides: ints{1, 2}, Padding: [][2]int64{{0, 0}, {1, 1}}}
			return one(b.SelectAndScatter(in(b, "f32[3,6]"), in(b, "f32[3,4]"), in(b, "f32[]"), w,
				func(b *hlo.Builder, x, y hlo.Value) hlo.Value { return b.Compare(x, y, hlo.GE) }, hlo.CombineAdd))
		}),
	}
}

func reduceCases() []goldenCase {
	var out []goldenCase
	add := func(name string, f func(b *hlo.Builder) []hlo.Value) {
		out = append(out, goldenCase{"reduce", name, 0, f})
	}
	add("reduce", func(b *hlo.Builder) []hlo.Value {
		return b.Reduce([]hlo.Value{in(b, "f32[2,3]"), in(b, "i32[2,3]")}, []hlo.Value{in(b, "f32[]"), in(b, "i32[]")}, ints{0},
			func(b *hlo.Builder, l, r []hlo.Value) []hlo.Value {
				p := b.Compare(l[0], r[0], hlo.GT)
				return []hlo.Value{b.Select(p, l[0], r[0]), b.Select(p, l[1], r[1])}
			})
	})
	add("reduce by shorthand", func(b *hlo.Builder) []hlo.Value {
		x, p, i := in(b, "f32[2,3]"), in(b, "i1[2,3]"), in(b, "ui8[2,3]")
		return []hlo.Value{b.ReduceSum(x, ints{0, 1}), b.ReduceProd(x, ints{1}), b.ReduceMax(x, ints{0}), b.ReduceMin(i, ints{0}),
			b.ReduceAnd(p, ints{1}), b.ReduceOr(p, ints{1}), b.ReduceAnd(i, ints{1}), b.ReduceSum(x, nil), b.ReduceMax(p, ints{0})}
	})
	add("reduce_window", func(b *hlo.Builder) []hlo.Value {
		w := hlo.Window{Dims: ints{1, 3}, Strides: ints{1, 2}, BaseDilation: ints{1, 2}, Dilation: ints{1, 2}, Padding: [][2]int64{{0, 0}, {2, 1}}}
		return b.ReduceWindow([]hlo.Value{in(b, "f32[4,7]")}, []hlo.Value{b.MinValue(dtype.F32)}, w, hlo.CombineMax)
	})
	add("reduce_window of two", func(b *hlo.Builder) []hlo.Value {
		return b.ReduceWindow([]hlo.Value{in(b, "f32[7]"), in(b, "f32[7]")}, []hlo.Value{in(b, "f32[]"), in(b, "f32[]")}, hlo.Window{Dims: ints{3}}, hlo.CombineAdd)
	})
	add("map", func(b *hlo.Builder) []hlo.Value {
		return one(b.Map([]hlo.Value{in(b, "f32[4]"), in(b, "f32[4]")}, func(b *hlo.Builder, a []hlo.Value) hlo.Value { return b.Compare(a[0], a[1], hlo.LT) }))
	})
	add("sort", func(b *hlo.Builder) []hlo.Value {
		return b.Sort(1, true, []hlo.Value{in(b, "f32[2,5]"), in(b, "i64[2,5]")}, func(b *hlo.Builder, l, r []hlo.Value) hlo.Value {
			return b.CompareTotal(l[0], r[0], hlo.GT)
		})
	})
	return out
}

func linalgCases() []goldenCase {
	var out []goldenCase
	add := func(name string, f func(b *hlo.Builder) []hlo.Value) {
		out = append(out, goldenCase{"linalg", name, 0, f})
	}
	add("dot_general", func(b *hlo.Builder) []hlo.Value {
		return one(b.DotGeneral(in(b, "f32[5,2,3]"), in(b, "f32[5,3,4]"), hlo.DotDims{LhsBatch: ints{0}, RhsBatch: ints{0}, LhsContract: ints{2}, RhsContract: ints{1}}))
	})
	add("dot_general to a wider type", func(b *hlo.Builder) []hlo.Value {
		return one(b.DotGeneral(in(b, "bf16[2,3]"), in(b, "bf16[3,4]"), hlo.DotDims{LhsContract: ints{1}, RhsContract: ints{0}, Result: dtype.F32}))
	})
	add("dot_general outer", func(b *hlo.Builder) []hlo.Value {
		return one(b.DotGeneral(in(b, "i32[2]"), in(b, "i32[3]"), hlo.DotDims{}))
	})
	add("matmul", func(b *hlo.Builder) []hlo.Value {
		return one(b.MatMul(in(b, "f32[2,3]"), in(b, "f32[3,4]"), hlo.PrecisionHighest))
	})
	add("convolution", func(b *hlo.Builder) []hlo.Value {
		d := hlo.ConvNCHW(2)
		d.Strides, d.Padding, d.RhsDilation, d.FeatureGroups = ints{2, 1}, [][2]int64{{1, 1}, {0, 2}}, ints{1, 2}, 2
		return one(b.Convolution(in(b, "f32[2,4,8,9]"), in(b, "f32[6,2,3,3]"), d))
	})
	add("convolution transposed", func(b *hlo.Builder) []hlo.Value {
		d := hlo.ConvDims{InputFeature: 2, InputSpatial: ints{1}, KernelInput: 1, KernelOutput: 2, KernelSpatial: ints{0}, OutputFeature: 2, OutputSpatial: ints{1},
			LhsDilation: ints{2}, Reverse: []bool{true}, Precision: hlo.PrecisionHigh, Padding: [][2]int64{{2, 2}}}
		return one(b.Convolution(in(b, "f32[2,8,3]"), in(b, "f32[3,3,5]"), d))
	})
	add("convolution in batch groups", func(b *hlo.Builder) []hlo.Value {
		d := hlo.ConvNCHW(1)
		d.BatchGroups = 2
		return one(b.Convolution(in(b, "f32[4,3,8]"), in(b, "f32[6,3,3]"), d))
	})
	add("convolution without space", func(b *hlo.Builder) []hlo.Value {
		return one(b.Convolution(in(b, "f32[4,3]"), in(b, "f32[6,3]"), hlo.ConvNCHW(0)))
	})
	add("fft", func(b *hlo.Builder) []hlo.Value {
		c, r := in(b, "complex<f32>[2,8]"), in(b, "f32[2,8]")
		return []hlo.Value{b.Fft(c, hlo.FFT, ints{8}), b.Fft(c, hlo.IFFT, ints{2, 8}), b.Fft(r, hlo.RFFT, ints{8}), b.Fft(b.Fft(r, hlo.RFFT, ints{8}), hlo.IRFFT, ints{8})}
	})
	add("cholesky", func(b *hlo.Builder) []hlo.Value { return one(b.Cholesky(in(b, "f32[2,3,3]"), true)) })
	add("triangular_solve", func(b *hlo.Builder) []hlo.Value {
		return []hlo.Value{b.TriangularSolve(in(b, "f32[3,3]"), in(b, "f32[3,2]"), hlo.Triangular{Lower: true}),
			b.TriangularSolve(in(b, "complex<f32>[3,3]"), in(b, "complex<f32>[2,3]"), hlo.Triangular{Right: true, UnitDiagonal: true, Adjoint: true}),
			b.TriangularSolve(in(b, "f64[3,3]"), in(b, "f64[3,2]"), hlo.Triangular{Transpose: true})}
	})
	add("rng_bit_generator", func(b *hlo.Builder) []hlo.Value {
		s := in(b, "ui64[2]")
		n1, b1 := b.RngBitGenerator(hlo.RngThreeFry, s, sh("ui32[5]"))
		n2, b2 := b.RngBitGenerator(hlo.RngPhilox, n1, sh("ui64[2,2]"))
		n3, b3 := b.RngBitGenerator(hlo.RngDefault, n2, sh("ui8[3]"))
		return []hlo.Value{b1, b2, n3, b3}
	})
	add("rng", func(b *hlo.Builder) []hlo.Value {
		x, y := in(b, "f32[]"), in(b, "f32[]")
		return []hlo.Value{b.RngUniform(x, y, ints{2, 3}), b.RngNormal(x, y, ints{})}
	})
	add("batch_norm", func(b *hlo.Builder) []hlo.Value {
		x, f := in(b, "f32[2,3,4]"), in(b, "f32[3]")
		y, mean, variance := b.BatchNormTraining(x, f, f, 1e-5, 1)
		dx, ds, do := b.BatchNormGrad(x, f, mean, variance, y, 1e-5, 1)
		return []hlo.Value{b.BatchNormInference(x, f, f, mean, variance, 1e-3, 1), dx, ds, do}
	})
	return out
}

func controlCases() []goldenCase {
	var out []goldenCase
	add := func(name string, f func(b *hlo.Builder) []hlo.Value) {
		out = append(out, goldenCase{"control", name, 0, f})
	}
	add("if", func(b *hlo.Builder) []hlo.Value {
		x := in(b, "f32[2]")
		return b.If(in(b, "i1[]"), func(b *hlo.Builder) []hlo.Value { return []hlo.Value{b.Add(x, x), x} },
			func(b *hlo.Builder) []hlo.Value { return []hlo.Value{x, b.ConstLike(x, 0)} })
	})
	add("case", func(b *hlo.Builder) []hlo.Value {
		x := in(b, "f32[2]")
		f := func(n float64) hlo.Branch {
			return func(b *hlo.Builder) []hlo.Value { return one(b.Multiply(x, b.ConstLike(x, n))) }
		}
		return b.Case(in(b, "i32[]"), f(1), f(2), f(3))
	})
	add("while", func(b *hlo.Builder) []hlo.Value {
		x, limit := in(b, "f32[2]"), in(b, "i32[]")
		return b.While([]hlo.Value{b.Scalar(dtype.I32, hlo.Int(0)), x},
			func(b *hlo.Builder, v []hlo.Value) hlo.Value { return b.Compare(v[0], limit, hlo.LT) },
			func(b *hlo.Builder, v []hlo.Value) []hlo.Value {
				s := b.ReduceSum(v[1], ints{0})
				return []hlo.Value{b.Add(v[0], b.ConstLike(v[0], 1)), b.Add(b.Broadcast(s, v[1].Dims()), x)}
			})
	})
	add("optimization_barrier", func(b *hlo.Builder) []hlo.Value { return b.OptimizationBarrier(in(b, "f32[2]"), in(b, "i32[]")) })
	add("call", func(b *hlo.Builder) []hlo.Value {
		x := in(b, "f32[2]")
		def := func() *hlo.Func {
			return b.DefineFunc("twice.f32", []*shape.Shape{x.Shape()}, func(b *hlo.Builder, a []hlo.Value) []hlo.Value { return one(b.Add(a[0], a[0])) })
		}
		return b.Call(def(), b.Call(def(), x)...)
	})
	add("composite", func(b *hlo.Builder) []hlo.Value {
		x := in(b, "f32[2]")
		f := b.DefineFunc("gelu impl", []*shape.Shape{x.Shape()}, func(b *hlo.Builder, a []hlo.Value) []hlo.Value { return one(b.Logistic(a[0])) })
		return b.Composite("torch.gelu", f, []hlo.Value{x}, hlo.StringAttr("approximate", "none"), hlo.Int64Attr("n", 1))
	})
	add("custom_call", func(b *hlo.Builder) []hlo.Value {
		return b.CustomCall("Sharding", []hlo.Value{in(b, "f32[2,2]")}, []*shape.Shape{sh("f32[2,2]")}, hlo.CustomCallOptions{Attrs: []hlo.Attr{hlo.Sharding("{replicated}")}})
	})
	add("attributes", func(b *hlo.Builder) []hlo.Value {
		b.ModuleAttrs(hlo.Int32Attr("mhlo.num_partitions", 1), hlo.Int32Attr("mhlo.num_replicas", 1))
		b.Mesh("mesh", hlo.MeshAxis{Name: "x", Size: 1})
		b.Locations(true)
		x := b.Param(sh("f32[4]"), hlo.Alias(0), hlo.ShardySharding(`@mesh, [{"x"}]`))
		y := b.Param(sh("f32[4]"), hlo.Donate(), hlo.Sharding("{replicated}"))
		b.ResultAttrs(1, hlo.StringAttr("jax.result_info", `a "quoted" \ name`), hlo.Int64sAttr("mhlo.note", ints{1, 2}), hlo.Float32Attr("mhlo.scale", 0.5))
		b.Loc("aten::add.Tensor", "dir/model.py:12")
		z := b.ShardingConstraint(b.Add(x, y), `@mesh, [{"x"}]`)
		b.Loc("", "model.py")
		b.NextAttrs(hlo.StringAttr("mhlo.frontend_attributes_note", "n"))
		w := b.Negate(z)
		b.Loc("aten::neg", "")
		return []hlo.Value{z, b.Negate(w)}
	})
	return out
}

// customCases are modules that parse but need handlers that no plugin has.
func customCases() []goldenCase {
	add := func(name string, f func(b *hlo.Builder) []hlo.Value) goldenCase {
		return goldenCase{"customcall", name, 0, f}
	}
	return []goldenCase{
		add("custom_call with layouts", func(b *hlo.Builder) []hlo.Value {
			x := in(b, "f32[2,3]")
			return b.CustomCall("no.such.target", []hlo.Value{x, in(b, "i32[]")}, []*shape.Shape{x.Shape(), sh("f32[2]")},
				hlo.CustomCallOptions{APIVersion: 3, OperandLayout: []ints{{0, 1}, {}}, ResultLayout: []ints{{1, 0}, {0}}})
		}),
		add("custom_call with called function", func(b *hlo.Builder) []hlo.Value {
			x := in(b, "f32[2,3]")
			f := b.DefineFunc("body", []*shape.Shape{sh("f32[]")}, func(b *hlo.Builder, a []hlo.Value) []hlo.Value { return a })
			return b.CustomCall("no.such.target", []hlo.Value{x, in(b, "i32[]")}, []*shape.Shape{x.Shape(), sh("f32[2]")}, hlo.CustomCallOptions{
				APIVersion: 2, BackendConfig: "opaque\n", HasSideEffect: true, Called: []*hlo.Func{f}})
		}),
		add("custom_call with typed config", func(b *hlo.Builder) []hlo.Value {
			x := in(b, "f32[2,3]")
			return b.CustomCall("no.such.ffi", []hlo.Value{x}, []*shape.Shape{x.Shape()}, hlo.CustomCallOptions{APIVersion: 4,
				Config: []hlo.Attr{hlo.Int64Attr("n", 3), hlo.BoolAttr("b", true), hlo.StringAttr("s", "x"), hlo.Float32Attr("f", 1.5), hlo.Int64sAttr("dims", ints{1, 2})}, Aliases: [][2]int{{0, 0}}})
		}),
		add("custom_call with empty config", func(b *hlo.Builder) []hlo.Value {
			x := in(b, "f32[2]")
			return b.CustomCall("no.such.ffi", []hlo.Value{x, x}, []*shape.Shape{x.Shape(), x.Shape()}, hlo.CustomCallOptions{APIVersion: 4, Aliases: [][2]int{{1, 0}}})
		}),
	}
}

func collectiveCases() []goldenCase {
	var out []goldenCase
	add := func(name string, f func(b *hlo.Builder) []hlo.Value) {
		out = append(out, goldenCase{"collective", name, 2, f})
	}
	g := hlo.Groups{Replica: []ints{{0, 1}}}
	ch := hlo.Groups{Replica: []ints{{0, 1}}, Channel: 1, GlobalIDs: true}
	add("all_reduce", func(b *hlo.Builder) []hlo.Value { return b.AllReduce([]hlo.Value{in(b, "f32[4]")}, g, hlo.CombineAdd) })
	add("all_reduce of two by channel", func(b *hlo.Builder) []hlo.Value {
		return b.AllReduce([]hlo.Value{in(b, "f32[4]"), in(b, "f32[2,2]")}, ch, hlo.CombineMax)
	})
	add("all_reduce of two", func(b *hlo.Builder) []hlo.Value {
		return b.AllReduce([]hlo.Value{in(b, "f32[4]"), in(b, "f32[2,2]")}, g, hlo.CombineAdd)
	})
	add("all_reduce of everybody", func(b *hlo.Builder) []hlo.Value {
		return b.AllReduce([]hlo.Value{in(b, "i32[4]")}, hlo.Groups{}, hlo.CombineMin)
	})
	add("all_gather", func(b *hlo.Builder) []hlo.Value { return one(b.AllGather(in(b, "f32[4,3]"), 1, 2, ch)) })
	add("reduce_scatter", func(b *hlo.Builder) []hlo.Value {
		return one(b.ReduceScatter(in(b, "f32[4,3]"), 0, 2, ch, hlo.CombineAdd))
	})
	add("all_to_all", func(b *hlo.Builder) []hlo.Value { return one(b.AllToAll(in(b, "f32[4,3]"), 0, 1, 2, g)) })
	add("collective_permute", func(b *hlo.Builder) []hlo.Value {
		return one(b.CollectivePermute(in(b, "f32[4]"), [][2]int64{{0, 1}, {1, 0}}, 1))
	})
	add("collective_broadcast", func(b *hlo.Builder) []hlo.Value {
		return one(b.CollectiveBroadcast(in(b, "f32[4]"), hlo.Groups{Replica: []ints{{1}, {0}}}))
	})
	add("replica_id", func(b *hlo.Builder) []hlo.Value { return []hlo.Value{b.ReplicaId()} })
	add("partition_id", func(b *hlo.Builder) []hlo.Value { return []hlo.Value{b.PartitionId()} })
	return out
}
