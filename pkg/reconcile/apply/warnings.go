package apply

import (
	"context"
	"regexp"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
)

// Warnings is the rest.WarningHandlerWithContext of the clients that apply objects: the
// warnings the API server sends with an answer become a condition of the VidraResource.
type Warnings struct {
	// Otherwise handles the warnings of all other requests, such as dry runs and removals. The text of a
	// warning that may quote a value is withheld from it, because the object is unknown.
	Otherwise rest.WarningHandlerWithContext
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w Warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if gathered, ok := ctx.Value(warningsKey{}).(*warnings); ok {
		gathered.add(text)
		return
	}
	if !deprecation.MatchString(text) {
		text = "the API server warned of a request; the warning is withheld because it may quote a value"
	}
	w.Otherwise.HandleWarningHeaderWithContext(ctx, code, agent, text)
}

// deprecation matches the warnings of the API server about deprecated versions, which are free of values
// (k8s.io/apiserver/pkg/endpoints/deprecation, WarningMessage).
var deprecation = regexp.MustCompile(`^[\w./-]+ \w+ is deprecated in v[0-9.]+\+(, unavailable in v[0-9.]+\+)?(; use [\w./-]+ \w+)?$`)

type warningsKey struct{}

// warnings are those that the requests of a context were answered with.
type warnings struct {
	// mu guards texts.
	mu    sync.Mutex
	texts []string
}

// withWarnings has the warnings of the requests of a context gathered.
func withWarnings(ctx context.Context) (context.Context, *warnings) {
	gathered := &warnings{}
	return context.WithValue(ctx, warningsKey{}, gathered), gathered
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
