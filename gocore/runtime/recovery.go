package runtime

import (
	"slices"
)

// Bisection is a program in parts, to compute some of its results without the others.
type Bisection interface {
	// Lost is why no part gives a result; nil if one does. Only such results are asked for.
	Lost(result int) error
	// Need is the arguments that some results need, the packs counted after the buffers, and the number of
	// operations.
	Need(results []int) (args []int, ops int)
	// Compile compiles the part of the program that gives some results. It takes the arguments that Need
	// names, and takes none of them over. The caller releases it.
	Compile(results []int) (*Executable, error)
}

// recovery is what a launch that failed comes to. Results that need an argument which failed have its cause. The
// others are computed in parts, by halves. What does not depend on the failing operation gets its value; what does has
// the error of its part.
func (d *Device) recovery(l *Launch, cause error) {
	s := recovery{d: d, l: l}
	all := make([]int, len(l.Outs))
	for i := range all {
		all[i] = i
	}
	if s.bisection = l.Program.Bisect(); s.bisection == nil {
		s.fail(all, cause)
		return
	}
	sound := slices.DeleteFunc(slices.Clone(all), func(r int) bool {
		err := s.bisection.Lost(r)
		if err == nil {
			err = s.argument([]int{r})
		}
		if err != nil {
			s.fail([]int{r}, err)
		}
		return err != nil
	})
	_, ops := s.bisection.Need(sound)
	s.budget = 4096 + 2*ops
	if len(sound) < len(all) {
		s.attempt(sound, cause)
	} else {
		s.halve(sound, cause)
	}
	if !s.failed { // it works in parts: no one will ask why the whole did not
		countUnreported(cause)
	}
}

// recovery is the state of one.
type recovery struct {
	d         *Device
	l         *Launch
	bisection Bisection
	budget    int // operations that may still be compiled: a large program is not compiled for each of its results
	failed    bool
	noted     *failed // for a caller who waits; nil if nothing failed but for its arguments
}

func (s *recovery) fail(results []int, err error) {
	s.failed = true
	inherited := slices.ContainsFunc(s.l.Args, func(a *Buffer) bool { return a.Err() != nil && same(err, a.Err()) })
	for _, r := range results {
		o := s.l.Outs[r]
		if !inherited { // before a reader can see it: that one is told
			s.noted = s.d.failures.note(s.noted, err, o.recorded(err))
		}
		o.fail(err)
	}
}

// argument is the failure of an argument that some results need.
func (s *recovery) argument(results []int) error {
	args, _ := s.bisection.Need(results)
	for _, a := range args {
		if a < len(s.l.Args) {
			if err := s.l.Args[a].Await(); err != nil {
				return err
			}
		}
	}
	return nil
}

// halve computes results that cannot be computed together.
func (s *recovery) halve(results []int, cause error) {
	if len(results) < 2 {
		s.fail(results, cause)
		return
	}
	s.attempt(results[:len(results)/2], cause)
	s.attempt(results[len(results)/2:], cause)
}

// attempt computes some results together, or else in parts.
func (s *recovery) attempt(results []int, cause error) {
	if len(results) == 0 {
		return
	}
	args, ops := s.bisection.Need(results)
	if s.budget -= ops; s.budget < 0 {
		s.fail(results, cause)
		return
	}
	x, err := s.bisection.Compile(results)
	if err == nil {
		err = s.start(x, args, results)
		x.Release()
	}
	if err != nil {
		s.halve(results, err)
	}
}

// start runs a part.
func (s *recovery) start(x *Executable, args, results []int) error {
	part := &Launch{Step: s.l.Step}
	for _, a := range args {
		if a < len(s.l.Args) {
			part.Args = append(part.Args, s.l.Args[a])
		} else {
			part.Packs = append(part.Packs, s.l.Packs[a-len(s.l.Args)])
		}
	}
	part.Donors = slices.Repeat([]int32{-1}, len(part.Args))
	part.Given = make([]bool, len(part.Args))
	for _, r := range results {
		part.Outs = append(part.Outs, s.l.Outs[r])
	}
	s.d.run.Lock()
	defer s.d.run.Unlock()
	return s.d.start(part, x)
}
