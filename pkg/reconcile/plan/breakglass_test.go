package plan

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
)

// TestBreakGlassHasRoom annotates more objects of a VidraResource than may have an answer.
func TestBreakGlassHasRoom(t *testing.T) {
	t.Parallel()
	var inventory []*Object
	for i := range 2 * breakglass.MaxAnswers {
		inventory = append(inventory, &Object{ID: fixture.IDOf(fixture.ConfigMapKind, "shop", strconv.Itoa(i)), Entry: &v1alpha1.ManagedResourceStatus{}})
	}
	a := &Settings{BreakGlass: BreakGlassSettings{Max: time.Hour, Room: sync.OnceValue(func() *atomic.Int64 { return NewBreakGlassRoom(inventory) })}}
	object := fixture.LiveConfigMap("a", map[string]string{
		v1alpha1.BreakGlassUntilAnnotation: time.Now().Add(time.Minute).Format(time.RFC3339), v1alpha1.BreakGlassReasonAnnotation: "incident 42",
	})
	kept := 0
	for _, o := range inventory {
		switch answer := a.AnswerTo(o.Entry, nil, object); {
		case answer.Full:
			require.Equal(t, v1alpha1.BreakGlassIgnored, answer.Status.State)
			require.Contains(t, answer.Status.Message, "100 objects")
		default:
			require.Equal(t, v1alpha1.BreakGlassAccepted, answer.Status.State)
			o.Entry.BreakGlass, kept = answer.Status, kept+1
		}
	}
	require.Equal(t, breakglass.MaxAnswers, kept)
	require.Negative(t, NewBreakGlassRoom(inventory).Add(-1), "it is full for the next reconcile, too")
}
