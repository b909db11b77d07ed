package ops

// linalgRows are linear algebra.
var linalgRows = join(fftRows)
