package runtime

import (
	"errors"
	"fmt"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// A failure is known again by its text, behind other words too, but not by a text that says nothing or by its last
// words.
func TestWhichFailuresAreTheSame(t *testing.T) {
	failed := func(code pjrt.Code, msg string) error {
		return &pjrt.Error{Code: code, Func: "PJRT_Event_Await", Msg: msg}
	}
	cause := failed(pjrt.Internal, "no luck")
	for _, c := range []struct {
		a, b error
		same bool
	}{
		{cause, cause, true},
		{fmt.Errorf("wrapped: %w", cause), cause, true},
		{failed(pjrt.Unknown, "no luck"), cause, true},
		{failed(pjrt.Unknown, "Error dispatching computation: no luck"), cause, true},
		{failed(pjrt.Internal, "Error dispatching computation: %sno luck"), cause, true},
		{failed(pjrt.Internal, "Error dispatching computation: %sno luck"), failed(pjrt.Internal, "Buffer Definition Event: no luck"), true},
		{failed(pjrt.Internal, "a: no luck"), failed(pjrt.Internal, "b: no luck"), false},
		{failed(pjrt.Internal, "bad luck"), cause, false},
		{failed(pjrt.Internal, "luck"), cause, false},
		{failed(pjrt.Internal, "there is no luck"), cause, false},
		{failed(pjrt.Internal, ""), cause, false},
		{failed(pjrt.Internal, ": "), failed(pjrt.Internal, ""), false},
		{failed(pjrt.Internal, ""), failed(pjrt.Internal, ""), true},
		{failed(pjrt.Aborted, ""), failed(pjrt.Internal, ""), false},
		{errors.New("no luck"), cause, false},
	} {
		for _, pair := range [][2]error{{c.a, c.b}, {c.b, c.a}} {
			if got := same(pair[0], pair[1]); got != c.same && !(c.same && errors.Is(c.a, c.b)) {
				t.Errorf("same(%v, %v) = %v", pair[0], pair[1], got)
			}
		}
	}
}
