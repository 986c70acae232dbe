package reconcile

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// Warnings is the rest.WarningHandlerWithContext of the clients that apply objects: what
// the API server says besides an answer becomes a condition of the VidraResource.
type Warnings struct {
	// Otherwise handles the warnings of all other requests.
	Otherwise rest.WarningHandlerWithContext
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w Warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if heard, ok := ctx.Value(warningsKey{}).(*warnings); ok {
		heard.add(text)
		return
	}
	w.Otherwise.HandleWarningHeaderWithContext(ctx, code, agent, text)
}

type warningsKey struct{}

// warnings are those that the requests of a context were answered with.
type warnings struct {
	// mu guards texts.
	mu    sync.Mutex
	texts []string
}

// withWarnings has the warnings of the requests of a context gathered.
func withWarnings(ctx context.Context) (context.Context, *warnings) {
	heard := &warnings{}
	return context.WithValue(ctx, warningsKey{}, heard), heard
}

func (w *warnings) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.texts, text) {
		w.texts = append(w.texts, text)
	}
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}

// recordWarnings notes what the API server said of an object besides.
func (p *recorder) recordWarnings(r result) {
	if r.live == nil || r.skipped != nil {
		return // it was not applied
	}
	o := r.known
	// The answer to the same configuration is known, but for a restart; and what was
	// right about an object before it was reverted need not be warned of again.
	if r.why == whyNew || r.why == whyChanged {
		o.warnings, o.warningsKnown = nil, true
	}
	if len(r.warnings) > 0 {
		o.warnings = r.warnings
	}
}

// warningProblems returns the warnings about the objects of the manifest. Of those that this
// process has not applied, the warnings in the status stand. It is never nil.
func (s *vrState) warningProblems() []v1alpha1.Problem {
	before := map[v1alpha1.Subject][]v1alpha1.Problem{}
	for _, p := range s.status.Problems {
		if p.Reason == v1alpha1.ReasonWarned {
			before[p.Subject()] = append(before[p.Subject()], p)
		}
	}
	all := []v1alpha1.Problem{}
	for _, o := range s.manifest {
		for _, text := range o.warnings {
			all = append(all, problemOf(problemObject(o.desired.gvk, o.id), v1alpha1.ReasonWarned, display.Truncate(text, maxReason), v1alpha1.ConditionWarnings))
		}
		if len(o.warnings) == 0 && !o.warningsKnown {
			all = append(all, before[o.id.subject()]...)
		}
	}
	return all
}
