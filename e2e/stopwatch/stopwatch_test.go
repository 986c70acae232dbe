package stopwatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func TestCovers(t *testing.T) {
	tests := map[string]struct {
		reason     string
		live, want any
		covers     bool
	}{
		"equal": {
			reason: "an object covers itself",
			live:   map[string]any{"a": int64(1)}, want: map[string]any{"a": int64(1)}, covers: true,
		},
		"more": {
			reason: "defaults and status do not count",
			live:   map[string]any{"a": "x", "status": map[string]any{}}, want: map[string]any{"a": "x"}, covers: true,
		},
		"other value": {
			reason: "a changed value is an edit",
			live:   map[string]any{"a": "y"}, want: map[string]any{"a": "x"},
		},
		"missing key": {
			reason: "so is a removed one",
			live:   map[string]any{}, want: map[string]any{"a": "x"},
		},
		"map gone": {
			reason: "and a removed map", live: nil, want: map[string]any{"a": "x"},
		},
		"items with defaults": {
			reason: "items of a list may hold more, too",
			live:   []any{map[string]any{"name": "a", "port": int64(1)}}, want: []any{map[string]any{"name": "a"}}, covers: true,
		},
		"more items": {
			reason: "an item that was added is an edit", live: []any{"a", "b"}, want: []any{"a"},
		},
		"other item": {
			reason: "items are compared at their place", live: []any{"b"}, want: []any{"a"},
		},
		"no list": {
			reason: "a value is not a list", live: "a", want: []any{"a"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.covers, Covers(tt.live, tt.want), tt.reason)
		})
	}
}

// state is the target with a value.
func state(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "n"}, "data": value,
	}}
}

func TestFollow(t *testing.T) {
	type step struct {
		after time.Duration
		event watch.Event
	}
	edited := step{time.Millisecond, watch.Event{Type: watch.Modified, Object: state("edited")}}
	deleted := step{time.Millisecond, watch.Event{Type: watch.Deleted, Object: state("wanted")}}
	restored := step{10 * time.Millisecond, watch.Event{Type: watch.Modified, Object: state("wanted")}}
	added := step{10 * time.Millisecond, watch.Event{Type: watch.Added, Object: state("wanted")}}
	early := step{0, watch.Event{Type: watch.Modified, Object: state("wanted")}}
	tests := map[string]struct {
		reason string
		steps  []step
		// answered is when the edit is answered.
		answered time.Duration
		stood    time.Duration
		err      error
	}{
		"changed": {
			reason: "from the event that shows the edit to the one that shows it restored",
			steps:  []step{edited, restored}, stood: 10 * time.Millisecond,
		},
		"deleted": {
			reason: "a deleted object is as wanted when it is there again",
			steps:  []step{deleted, added}, stood: 10 * time.Millisecond,
		},
		"late echo": {
			reason: "an event from before the edit is not its restoration",
			steps:  []step{early, edited, restored}, stood: 10 * time.Millisecond,
		},
		"edited twice": {
			reason: "what stays edited goes on to stand",
			steps:  []step{edited, edited, restored}, stood: 11 * time.Millisecond,
		},
		"late answer": {
			reason: "the answer to the edit may come after its restoration", answered: 50 * time.Millisecond,
			steps: []step{edited, restored, early}, stood: 10 * time.Millisecond,
		},
		"never": {
			reason: "the timeout ends it", steps: []step{edited}, err: ErrNotRestored,
		},
		"no edit": {
			reason: "an edit that changes nothing has nothing to be restored", steps: []step{restored}, err: ErrNotRestored,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := make(chan watch.Event)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					for _, s := range tt.steps {
						time.Sleep(s.after)
						select {
						case events <- s.event:
						case <-ctx.Done():
						}
					}
				}()
				made := make(chan error, 1)
				time.AfterFunc(tt.answered, func() { made <- nil })
				target := Target{Want: state("wanted"), Timeout: time.Second}
				lap, err := target.follow(ctx, events, made)
				if tt.err != nil {
					require.ErrorIs(t, err, tt.err, tt.reason)
					require.ErrorContains(t, err, "ConfigMap n/c")
					return
				}
				require.NoError(t, err)
				require.Equal(t, tt.stood, lap.Stood, tt.reason)
				require.NotNil(t, lap.Edited)
				require.Equal(t, "wanted", lap.Restored.Object["data"])
			})
		})
	}
}

func TestFollowEnds(t *testing.T) {
	target := Target{Want: state("wanted"), Timeout: time.Minute}
	closed, silent, none := make(chan watch.Event), make(chan watch.Event), make(chan error)
	close(closed)
	_, err := target.follow(t.Context(), closed, none)
	require.ErrorContains(t, err, "ended the watch")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = target.follow(ctx, silent, none)
	require.ErrorIs(t, err, context.Canceled)

	refused := make(chan error, 1)
	refused <- context.DeadlineExceeded
	_, err = target.follow(t.Context(), silent, refused)
	require.ErrorIs(t, err, context.DeadlineExceeded, "an edit that the API server refuses is not timed")
}
