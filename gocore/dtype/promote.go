package dtype

// Category says how an operand takes part in promotion. Source: c10 ResultTypeState
// (aten/src/ATen/native/TypeProperties.cpp): dimensioned tensors outrank 0-dim tensors, which
// outrank wrapped numbers, unless the lower category has a higher Kind.
type Category uint8

// The categories, from the strongest to the weakest.
const (
	Dimensioned Category = iota
	ZeroDim
	Wrapped
)

// Promotion accumulates operands; the zero value is empty.
type Promotion struct{ best [3]DType }

// Add takes one operand in. A wrapped number comes with its own type: I64, F64, C128 or Bool. torch reads a float as
// one of the default float type: see Result.
func (p *Promotion) Add(d DType, c Category) {
	if p.best[c] == Invalid {
		p.best[c] = d
		return
	}
	p.best[c] = Promote(p.best[c], d)
}

// Result is the common type: torch.result_type of the operands. def is torch's default float type,
// which a wrapped float or complex number stands for.
func (p *Promotion) Result(def DType) DType {
	w := p.best[Wrapped]
	switch w.Kind() {
	case KindFloat:
		w = def
	case KindComplex:
		w = def.ToComplex()
	}
	return combine(p.best[Dimensioned], combine(p.best[ZeroDim], w))
}

// combine is c10's combine_categories: the lower category counts only if its kind is higher.
func combine(higher, lower DType) DType {
	if higher == Invalid {
		return lower
	}
	if lower == Invalid || higher.IsComplex() {
		return higher
	}
	if higher.IsFloat() {
		if lower.IsComplex() { // a complex scalar keeps the precision of the tensor
			return Promote(higher, higher.ToComplex())
		}
		return higher
	}
	if higher == Bool || lower.IsFloat() || lower.IsComplex() {
		return Promote(higher, lower)
	}
	return higher
}

// Promote is torch.promote_types(a, b); Invalid where torch has no common type. That is an fp8 type with any other,
// and an unsigned type wider than 8 bits with anything but a real float.
func Promote(a, b DType) DType {
	if a == b {
		return a
	}
	if a == Invalid || b == Invalid || a.IsF8() || b.IsF8() {
		return Invalid
	}
	if a.Kind() > b.Kind() {
		a, b = b, a
	}
	if (wideUnsigned(a) || wideUnsigned(b)) && !b.IsFloat() {
		return Invalid
	}
	switch {
	case b.IsComplex():
		if a == F64 || a == C128 || b == C128 {
			return C128
		}
		return C64
	case b.IsFloat():
		if !a.IsFloat() {
			return b
		}
		if a == F64 || b == F64 {
			return F64
		}
		return F32 // {f16, bf16}, or one of them with f32
	case a == Bool:
		return b
	}
	return promoteInt(a, b)
}

func wideUnsigned(d DType) bool { return d == U16 || d == U32 || d == U64 }

// promoteInt joins two different integer types of at most one unsigned, U8.
func promoteInt(a, b DType) DType {
	if a == U8 {
		a, b = b, a
	}
	if b == U8 {
		if a == I8 {
			return I16
		}
		return a
	}
	if a.Size() > b.Size() {
		return a
	}
	return b
}
