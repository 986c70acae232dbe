package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
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

// warningsIn are the warnings of the objects of the manifest. Of those that this process
// has not applied, what the status says stands.
func (s *vrState) warningsIn() []string {
	var before []string
	if told := meta.FindStatusCondition(s.status.Conditions, v1alpha1.ConditionWarnings); told != nil {
		before = strings.Split(told.Message, events.Between)
	}
	all := []string{}
	for _, o := range s.manifest {
		for _, text := range o.warnings {
			all = append(all, fmt.Sprintf("%s: %s", o.id, display.Truncate(events.Inline(text), maxReason)))
		}
		for _, text := range before {
			if len(o.warnings) == 0 && !o.warningsKnown && strings.HasPrefix(text, o.id.String()+": ") {
				all = append(all, text)
			}
		}
	}
	return all
}
