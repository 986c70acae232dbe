package apply

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
)

// Warnings is the rest.WarningHandlerWithContext of the clients that apply objects: the
// warnings the API server sends with an answer become a condition of the VidraResource.
type Warnings struct {
	// Otherwise handles the warnings of all other requests.
	Otherwise rest.WarningHandlerWithContext
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w Warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if gathered, ok := ctx.Value(warningsKey{}).(*warnings); ok {
		gathered.add(text)
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
