package trigger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// othersIn is configMap with more keys, which other managers own: "key", or "manager/key".
func othersIn(value, version string, keys ...string) *unstructured.Unstructured {
	u := configMap(value, version)
	entries := u.Object["metadata"].(map[string]any)["managedFields"].([]any)
	for _, key := range keys {
		manager, name, named := strings.Cut(key, "/")
		if !named {
			manager, name = "other", key
		}
		u.Object["data"].(map[string]any)[name] = "x"
		entries = append(entries, map[string]any{
			"manager": manager, "operation": "Update",
			"fieldsV1": map[string]any{"f:data": map[string]any{"f:" + name: map[string]any{}}},
		})
	}
	u.Object["metadata"].(map[string]any)["managedFields"] = entries
	return u
}

// taken is othersIn where we do not own the value any more.
func taken(u *unstructured.Unstructured) *unstructured.Unstructured {
	entries := u.Object["metadata"].(map[string]any)["managedFields"].([]any)
	entries[0].(map[string]any)["fieldsV1"] = map[string]any{"f:data": map[string]any{"f:other": map[string]any{}}}
	return u
}

func pathsOf(keys ...string) ownership.Paths {
	return ownership.Others(othersIn("", "", keys...), v1alpha1.FieldManagerPrefix)
}

// TestBaseline: what was there before an edit is what others owned when the object was last
// as expected, and what came with writes that changed nothing of ours.
func TestBaseline(t *testing.T) {
	type event = *unstructured.Unstructured
	cases := map[string]struct {
		reason string
		events []event
		known  bool
		want   ownership.Paths
	}{
		"OneEdit":     {"An event shows what was there before the next one.", []event{othersIn("blue", "101", "a"), othersIn("red", "102", "a", "b")}, true, pathsOf("a")},
		"NoOthers":    {"Nothing was there.", []event{othersIn("blue", "101"), othersIn("red", "102", "b")}, true, ""},
		"Echo":        {"The apply itself shows it.", []event{othersIn("red", "102", "a", "b")}, true, pathsOf("a")},
		"TwoEdits":    {"Both are to be reverted.", []event{othersIn("red", "101", "a", "b"), othersIn("green", "102", "a", "b", "c")}, true, pathsOf("a")},
		"Controller":  {"A controller's write is no edit of what is ours.", []event{othersIn("red", "101", "a", "me/b"), othersIn("red", "102", "a", "me/b", "c")}, true, pathsOf("a", "c")},
		"EditedAgain": {"What the same manager adds next is a part of its edit.", []event{othersIn("red", "101", "a", "me/b"), othersIn("red", "102", "a", "me/c")}, true, pathsOf("a")},
		"Successor":   {"Who changes what an edit took from us edits, too.", []event{taken(othersIn("blue", "101", "a", "me/color")), taken(othersIn("blue", "102", "a", "you/color", "you/b"))}, true, pathsOf("a")},
		"InOrder":     {"What came while all was in order stays.", []event{othersIn("blue", "101", "a", "b"), othersIn("red", "102", "a", "b", "c")}, true, pathsOf("a", "b")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if name == "NoOthers" {
				r.applyBeside()
			} else {
				r.applyBeside("a")
			}
			r.replay(t, nil, tc.events...)
			before, known := r.index.Before(owner, key)
			require.Equal(t, tc.known, known, tc.reason)
			require.Equal(t, tc.want, before, tc.reason)
		})
	}
}

// TestBaselineAfterRestart: an object that was never seen as expected has none; one that
// was, has.
func TestBaselineAfterRestart(t *testing.T) {
	for _, seen := range []bool{false, true} {
		t.Run(fmt.Sprint(seen), func(t *testing.T) {
			r := newRig(t)
			var before any
			if seen { // before its owner was known
				kept, err := r.TransformFor("", key.GVR)(othersIn("blue", "101", "a"))
				require.NoError(t, err)
				r.HandlerFor("", key.GVR).OnAdd(kept, true)
				before = kept
			}
			r.index.Load(owner, map[ObjectKey]Applied{key: {Manager: manager, Digest: digestOf(configMap("blue", "100"))}})
			r.replay(t, before, othersIn("red", "102", "a", "b"))
			paths, known := r.index.Before(owner, key)
			require.Equal(t, seen, known)
			if seen {
				require.Equal(t, pathsOf("a"), paths)
			}
		})
	}
}

// TestBaselineOfALostLabel: what loses its label looks deleted, as it was before.
func TestBaselineOfALostLabel(t *testing.T) {
	r := newRig(t)
	r.index.Load(owner, map[ObjectKey]Applied{key: {Manager: manager, Digest: digestOf(configMap("blue", "100"))}})
	kept, err := r.TransformFor("", key.GVR)(othersIn("blue", "101", "a"))
	require.NoError(t, err)
	r.HandlerFor("", key.GVR).OnDelete(kept)
	paths, known := r.index.Before(owner, key)
	require.True(t, known)
	require.Equal(t, pathsOf("a"), paths)
}

// TestBaselineOfAnObjectThatIsLeft: while an object is left as users changed it, what they
// added counts as added, so that it can be removed one day.
func TestBaselineOfAnObjectThatIsLeft(t *testing.T) {
	r := newRig(t)
	r.applyBeside("a")
	edited := othersIn("red", "101", "a", "me/b")
	before := r.replay(t, nil, othersIn("blue", "100", "a"), edited)
	r.index.Begin(owner, key, manager)
	r.Observed(owner, key, Applied{Manager: manager, Digest: DigestOf(edited, manager, true, nil), ResourceVersion: "101", Unreverted: true})
	r.replay(t, before, othersIn("red", "102", "a", "me/b", "c")) // by a controller
	r.index.Load(owner, map[ObjectKey]Applied{key: appliedAt("blue", "")})
	paths, known := r.index.Before(owner, key)
	require.True(t, known)
	require.Equal(t, pathsOf("a", "c"), paths)
}

// TestRacedEdit: an edit that came while an apply was under way, and added what stays after
// it, is told with what was there before it, whether its event comes before or after the
// answer to the apply. Without an addition, the apply has reverted it.
func TestRacedEdit(t *testing.T) {
	for _, early := range []bool{true, false} {
		for _, raced := range []bool{true, false} {
			t.Run(fmt.Sprintf("early=%t,raced=%t", early, raced), func(t *testing.T) {
				r := newRig(t)
				r.applyBeside("a")
				kept := r.replay(t, nil, othersIn("blue", "100", "a"), othersIn("red", "101", "a"))
				r.TakeCauses(owner)

				r.index.Begin(owner, key, manager)
				events := []*unstructured.Unstructured{othersIn("green", "102", "a", "b"), othersIn("blue", "103", "a", "b")}
				if early {
					r.replay(t, kept, events...)
				}
				second := appliedAt("blue", "103")
				second.Others = pathsOf("a", "b")
				if raced {
					second.Raced = new(pathsOf("a"))
				}
				r.Commit(owner, key, second)
				if !early {
					r.replay(t, kept, events...)
				}
				cause, told := r.TakeCauses(owner).Objects[key]
				require.Equal(t, raced, told)
				if raced {
					require.Equal(t, "102", cause.Found.GetResourceVersion())
					require.Equal(t, pathsOf("a"), *cause.Before)
				}
			})
		}
	}
}

// TestSkippedStatesAreBounded: a state that is not judged yet keeps maxSkipped earlier ones, which keep
// none.
func TestSkippedStatesAreBounded(t *testing.T) {
	s := &Snapshot{}
	for range 10 * maxSkipped {
		next := &Snapshot{}
		next.pending.Store(&pendingObject{received: time.Unix(1, 0)})
		next.Skip(s)
		s = next
	}
	require.Len(t, s.waiting().skipped, maxSkipped)
	for _, earlier := range s.waiting().skipped {
		require.Empty(t, earlier.waiting().skipped)
		require.Equal(t, time.Unix(1, 0), earlier.pending.Load().received, "the rest of it is kept")
	}
}

// TestSkippedStates: what a slow handler does not see, of an object that is written to again
// and again, counts all the same: who added what before an edit, and with it.
func TestSkippedStates(t *testing.T) {
	type event = *unstructured.Unstructured
	cases := map[string]struct {
		reason string
		events []event
		want   ownership.Paths
	}{
		"AddedBefore": {"A program added c before the edit.", []event{othersIn("blue", "101", "a", "c"), othersIn("red", "102", "a", "c", "me/b")}, pathsOf("a", "c")},
		"AddedAfter":  {"A program added c to what was edited.", []event{othersIn("red", "101", "a", "me/b"), othersIn("red", "102", "a", "me/b", "c")}, pathsOf("a", "c")},
		"EditedAgain": {"The same user added d.", []event{othersIn("red", "101", "a", "me/b"), othersIn("red", "102", "a", "me/b", "me/d")}, pathsOf("a")},
		"TakenBack":   {"What stays of an edit that was taken back was there.", []event{othersIn("red", "101", "a", "me/b"), othersIn("blue", "102", "a", "me/b"), othersIn("red", "103", "a", "me/b", "me/d")}, pathsOf("a", "b")},
		"ManyWrites": {"More states are skipped than are kept.", func() []event {
			all := []event{}
			for i := range 2 * maxSkipped {
				all = append(all, othersIn("blue", fmt.Sprint(101+i), "a", "c"))
			}
			return append(all, othersIn("red", "199", "a", "c", "me/b"))
		}(), pathsOf("a", "c")},
	}
	for name, tc := range cases {
		for _, inFlight := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", name, inFlight), func(t *testing.T) {
				r := newRig(t)
				r.applyBeside("a")
				kept := r.replay(t, nil, othersIn("blue", "100", "a"))
				if inFlight { // each is seen, and judged when the apply has failed
					r.index.Begin(owner, key, manager)
					r.replay(t, kept, tc.events...)
					r.Abort(owner, key)
				} else {
					var last *Snapshot
					for _, u := range tc.events {
						next, err := r.TransformFor("", key.GVR)(u)
						require.NoError(t, err)
						if last != nil {
							next.(*Snapshot).Skip(last)
						}
						last = next.(*Snapshot)
					}
					r.handler.OnUpdate(kept, last)
				}
				require.Len(t, r.TakeCauses(owner).Objects, 1)
				before, known := r.index.Before(owner, key)
				require.True(t, known, tc.reason)
				require.Equal(t, tc.want, before, tc.reason)
			})
		}
	}
}

// TestControllerWritesDuringAnApply: what a controller adds while an edit is being reverted is
// no edit, and needs no other apply.
func TestControllerWritesDuringAnApply(t *testing.T) {
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprint(early), func(t *testing.T) {
			r := newRig(t)
			r.applyBeside("a")
			kept := r.replay(t, nil, othersIn("blue", "100", "a"), othersIn("red", "101", "a", "me/b"))
			r.TakeCauses(owner)
			r.index.Begin(owner, key, manager)
			events := []*unstructured.Unstructured{othersIn("red", "102", "a", "me/b", "c"), othersIn("blue", "103", "a", "me/b", "c")}
			if early {
				r.replay(t, kept, events...)
			}
			second := appliedAt("blue", "103")
			second.Others, second.Raced = pathsOf("a", "c"), new(pathsOf("a"))
			r.Commit(owner, key, second)
			if !early {
				r.replay(t, kept, events...)
			}
			require.Empty(t, r.TakeCauses(owner).Objects)
		})
	}
}

// TestEditBeforeTheApplyIsKept: an edit that is judged before the apply of an earlier one
// begins may have added what stays after it.
func TestEditBeforeTheApplyIsKept(t *testing.T) {
	for _, raced := range []bool{true, false} {
		t.Run(fmt.Sprint(raced), func(t *testing.T) {
			r := newRig(t)
			r.apply("blue", "100", nil)
			kept := r.replay(t, nil, othersIn("blue", "100"), othersIn("red", "101"))
			r.TakeCauses(owner)
			r.replay(t, kept, othersIn("green", "102", "me/b"))
			r.index.Begin(owner, key, manager)
			applied := appliedAt("blue", "103")
			applied.Others = pathsOf("b")
			if raced {
				applied.Raced = new(ownership.Paths(""))
			}
			r.Commit(owner, key, applied)
			cause, told := r.TakeCauses(owner).Objects[key]
			require.Equal(t, raced, told)
			if raced {
				require.Equal(t, "102", cause.Found.GetResourceVersion())
				require.Empty(t, *cause.Before)
			}
		})
	}
}

// applyBeside applies the value blue, beside keys that other managers own.
func (r *rig) applyBeside(keys ...string) {
	applied := appliedAt("blue", "100")
	applied.Others = pathsOf(keys...)
	r.index.Begin(owner, key, manager)
	r.Commit(owner, key, applied)
}

// replay delivers what a watch shows of an object after before. It returns the last that the
// watch keeps.
func (r *rig) replay(t *testing.T, before any, events ...*unstructured.Unstructured) any {
	t.Helper()
	for _, u := range events {
		kept, err := r.TransformFor("", key.GVR)(u)
		require.NoError(t, err)
		if before == nil {
			r.handler.OnAdd(kept, false)
		} else {
			r.handler.OnUpdate(before, kept)
		}
		before = kept
	}
	return before
}

// TestRecordDelay: a change of the fields of other managers is recorded soon, and changes without a pause twice a minute.
func TestRecordDelay(t *testing.T) {
	t.Parallel()
	x, owner, at := NewIndex(), Owner{Name: "shop"}, time.Now()
	x.Load(owner, nil)
	require.Equal(t, recordSoon, x.recordDelay(owner, at))
	require.Equal(t, recordSoon, x.recordDelay(owner, at), "the same reconcile records both")
	at = at.Add(recordSoon + 1)
	require.Equal(t, recordSpacing-1, x.recordDelay(owner, at))
	require.Equal(t, recordSpacing-2, x.recordDelay(owner, at.Add(1)))
	require.Equal(t, recordSoon, x.recordDelay(owner, at.Add(3*recordSpacing)), "after a pause")
}
