package trigger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestThen: two causes of one object become one, with the newest state since the first change.
func TestThen(t *testing.T) {
	t.Parallel()
	at := func(uid types.UID, version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetUID(uid)
		u.SetResourceVersion(version)
		return u
	}
	first, second, other := at("a", "9"), at("a", "10"), at("b", "1")
	before, early, late := new(ownership.Paths), time.Unix(1, 0), time.Unix(2, 0)
	for name, tc := range map[string]struct {
		reason            string
		older, newer, are Cause
	}{
		"Edits":      {"The object has both.", Cause{Found: first, Since: early}, Cause{Found: second, Since: late}, Cause{Found: second, Since: early}},
		"GivenBack":  {"An older cause was given back later.", Cause{Found: second, Since: late}, Cause{Found: first, Since: early}, Cause{Found: second, Since: late}},
		"CreatedNew": {"Versions of another object have no order.", Cause{Found: second, Since: early}, Cause{Found: other, Since: late}, Cause{Found: other, Since: early}},
		"Deleted":    {"It is gone now.", Cause{Found: second, Since: early}, Cause{Deleted: true, Since: late}, Cause{Deleted: true, Since: early}},
		"Additions":  {"Those of the first edit are still there.", Cause{Before: before}, Cause{Found: first, Since: late}, Cause{Found: first, Before: before, Since: late}},
		"Unanswered": {"An inferred cause has nothing to report.", Cause{Found: first, Unanswered: true}, Cause{Unsure: true}, Cause{Found: first, Unanswered: true}},
		"Unsure":     {"The object is read.", Cause{Found: first, Since: early}, Cause{Unsure: true}, Cause{Unsure: true, Since: early}},
		"First":      {"There was none.", Cause{}, Cause{Found: first, Since: late}, Cause{Found: first, Since: late}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.are, tc.older.Then(tc.newer), tc.reason) })
	}
}
