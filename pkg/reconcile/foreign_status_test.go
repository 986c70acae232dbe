package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/reconcile/status"
)

// TestStatusWrites tells own writes from those of other clients, in whatever order the
// answers and the events come. A step is "begin", "end VERSION", "fail", or "event
// VERSION"; a mark behind it reports that another client is noticed.
func TestStatusWrites(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		steps  string
	}{
		"Event after the answer":  {"It is the own write.", "begin, end 2, event 2"},
		"Event before the answer": {"It is the own write.", "begin, event 2, end 2"},
		"Another one":             {"No write was under way.", "begin, end 2, event 2, event 3 !"},
		"Before any write":        {"This process has written nothing.", "event 2 !"},
		"Another one meanwhile":   {"It came before the own write.", "begin, event 2, event 3, end 3 !"},
		"Another one, told late":  {"Its event comes after the answer.", "begin, end 3, event 2 !, event 3"},
		"Another one at the end":  {"It came after the own write.", "begin, event 2, event 3, end 2 !"},
		"Failed":                  {"Nothing was written by us.", "begin, event 2, fail !"},
		"Failed alone":            {"Nothing was written.", "begin, fail, begin, end 2, event 2"},
		"Several":                 {"Events lag behind.", "begin, end 2, begin, end 3, event 2, event 3, event 4 !"},
		"Events that are missed":  {"A relist shows the last one.", "begin, end 2, begin, end 3, event 3, begin, end 4, event 4"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &status.Writes{}
			for step := range strings.SplitSeq(tc.steps, ", ") {
				words := strings.Fields(step)
				want := words[len(words)-1] == "!"
				var foreign bool
				switch words[0] {
				case "begin":
					w.Writing = true
				case "end":
					foreign = w.End(words[1])
				case "fail":
					foreign = w.End("")
				case "event":
					foreign = w.Seen(words[1])
				}
				require.Equal(t, want, foreign, "%s: %s", step, tc.reason)
			}
			require.Equal(t, strings.Contains(tc.steps, "!"), w.Foreign() > 0)
			require.Empty(t, w.Own)
		})
	}
}

// TestRestoredAfterAFailure: a status that another client wrote is written again, also if the first attempt fails.
func TestRestoredAfterAFailure(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	reconciled := func() error {
		_, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
		return err
	}
	require.NoError(t, reconciled())
	before := l.get(t)
	vr := before.DeepCopy()
	vr.Status.Conditions = nil
	require.NoError(t, l.client.Status().Update(t.Context(), vr))
	require.True(t, l.foreignStatus(before, l.get(t)))
	l.failWrites = 1
	require.Error(t, reconciled())
	require.Empty(t, l.get(t).Status.Conditions)
	require.NoError(t, reconciled())
	require.NotEmpty(t, l.get(t).Status.Conditions)
}

// TestSecondForeignStatus: a write of another client after the read of the one that is restored is restored later.
func TestSecondForeignStatus(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := &status.Writes{}
	require.Zero(t, w.Foreign())
	w.Seen("1")
	read := w.Foreign()
	w.Seen("2")
	due, _ := w.ToRestore(read, now)
	require.True(t, due)
	w.EndRestore(read, now, nil)
	second := w.Foreign()
	require.NotZero(t, second)
	due, later := w.ToRestore(second, now)
	require.False(t, due)
	require.True(t, later.After(now))
	due, _ = w.ToRestore(second, later)
	require.True(t, due)
	w.EndRestore(second, later, errors.New("no answer"))
	require.Equal(t, second, w.Foreign(), "it is tried again")
}

// TestForeignStatusDuringAReconcile: another client writes the status while a reconcile that has read the VidraResource runs.
func TestForeignStatusDuringAReconcile(t *testing.T) {
	l := newLab(t, colors("a"))
	reconciled := func() {
		_, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
		require.NoError(t, err)
	}
	reconciled()
	l.applying = func(string) {
		l.applying = nil
		before := l.get(t)
		vr := before.DeepCopy()
		vr.Status.Conditions = nil
		require.NoError(t, l.client.Status().Update(t.Context(), vr))
		require.True(t, l.foreignStatus(before, l.get(t)), "it is enqueued")
	}
	l.mustPass(t, "a")
	require.Nil(t, l.applying)
	for range 3 { // the event enqueued it
		reconciled()
	}
	l.states.all[faulty].plan.Schedule.Resync = time.Time{}
	reconciled()
	require.NotEmpty(t, l.get(t).Status.Conditions)
}
