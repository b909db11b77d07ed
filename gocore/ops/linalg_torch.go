package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// torchLinalgRows are the factorizations that only LAPACK computes: its choices of pivots and its order of eigenvalues
// are the result. They call torch's kernels, in programs that may. _backend/composed/linalg.py leads torch's ops of
// these names here, or to the CPU.
var torchLinalgRows = []Row{
	{Name: "torch_go_xla::linalg_eig", Schema: "(Tensor self) -> (Tensor, Tensor)", Torch: &Kernel{Out: "out",
		Op: "linalg_eig(Tensor self) -> (Tensor, Tensor)"}, Internal: true,
		Infer: func(c *Ctx) error {
			s, err := c.squares(0, "linalg.eig")
			if err != nil {
				return err
			}
			n, _ := sides(s)
			if err := c.returnStack(s, s.DType.ToComplex(), n); err != nil {
				return err
			}
			return c.ReturnLike(s.With(s.DType.ToComplex()))
		},
		Lower: onlyTorch},
	{Name: "torch_go_xla::_linalg_eigvals", Schema: "(Tensor self) -> Tensor", Torch: &Kernel{Check: "finite",
		Op: "_linalg_eigvals(Tensor self) -> Tensor"}, Internal: true,
		Infer: func(c *Ctx) error {
			s, err := c.squares(0, "linalg.eigvals")
			if err != nil {
				return err
			}
			n, _ := sides(s)
			return c.returnStack(s, s.DType.ToComplex(), n)
		},
		Lower: onlyTorch},
	{Name: "torch_go_xla::linalg_ldl_factor_ex", Schema: "(Tensor self, bool hermitian) -> (Tensor, Tensor, Tensor)", Torch: &Kernel{Out: "out",
		Op: "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor, Tensor, Tensor)"}, Internal: true,
		Infer: func(c *Ctx) error {
			s, err := c.squares(0, "torch.linalg.ldl_factor_ex")
			if err != nil {
				return err
			}
			if err := c.ReturnLike(s); err != nil {
				return err
			}
			n, _ := sides(s)
			if err := c.returnStack(s, dtype.I32, n); err != nil {
				return err
			}
			return c.returnStack(s, dtype.I32)
		},
		Lower: onlyTorch},
	{Name: "torch_go_xla::linalg_ldl_solve", Schema: "(Tensor LD, Tensor pivots, Tensor B, bool hermitian) -> Tensor", Torch: &Kernel{Out: "out", Check: "ldl_pivots",
		Op: "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor"}, Internal: true,
		Infer: func(c *Ctx) error {
			ld, b := c.In(0), c.In(2)
			if _, err := c.squares(0, "torch.linalg.ldl_solve"); err != nil {
				return err
			}
			if rows, _ := sides(ld); len(b.Dims) < 2 || b.Dims[len(b.Dims)-2] != rows || b.DType != ld.DType {
				return errs.New(errs.Runtime, "linalg.ldl_solve: Incompatible factors %s and right-hand sides %s", ld, b)
			}
			r, k := len(ld.Dims)-2, len(b.Dims)-2
			dims, _, ok := shape.Broadcast(c.dims[:0], ld.Dims[:r], b.Dims[:k])
			if !ok {
				return errs.New(errs.Runtime, "linalg.ldl_solve: Incompatible batches of factors %s and right-hand sides %s", ld, b)
			}
			return c.Return(b.DType, append(dims, b.Dims[k:]...)...)
		},
		Lower: onlyTorch},
}

// onlyTorch is the lowering of a row that only torch's kernel computes, where that cannot be called.
func onlyTorch(l *Lowering) {
	results := l.outCount()
	if l.Out(0).Numel() > 0 {
		l.B.Failf(TorchTarget, nil, "torch's CPU kernel cannot be called by a program that may run elsewhere, or in parts")
	}
	l.allOmitted(results)
}
