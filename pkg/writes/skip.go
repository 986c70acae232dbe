package writes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// AnswerTimeout is how long a write waits for the operator.
const AnswerTimeout = 10 * time.Second

// Skipped is a request for break-glass.
type Skipped struct {
	Object insight.Managed
	// Until is when the exemption ends, in whole seconds.
	Until time.Time

	// request identifies it in the status.
	request string
}

// Skip requests that no edit of an object is reverted until a time (break-glass). reason must not be empty.
func (c *Client) Skip(ctx context.Context, of insight.Target, until time.Time, reason string) (Skipped, error) {
	found, err := c.questions.Managed(ctx, of)
	if err != nil {
		return Skipped{}, err
	}
	until = until.UTC().Truncate(time.Second)
	text := until.Format(time.RFC3339)
	request := object.Identify([]byte(text), []byte(strings.TrimSpace(reason)))
	return Skipped{Object: found, Until: until, request: request}, c.annotate(ctx, found, map[string]any{
		v1alpha1.BreakGlassUntilAnnotation: text, v1alpha1.BreakGlassReasonAnnotation: reason,
	})
}

// EndSkip removes the annotations of a request for break-glass.
func (c *Client) EndSkip(ctx context.Context, of insight.Target) (object.Identity, error) {
	found, err := c.questions.Managed(ctx, of)
	if err != nil {
		return found.ID, err
	}
	return found.ID, c.annotate(ctx, found, map[string]any{v1alpha1.BreakGlassUntilAnnotation: nil, v1alpha1.BreakGlassReasonAnnotation: nil})
}

// answeredBy reports whether an answer is the operator's to the request: it accepts with an end, as opposed to another client that
// writes the status.
func (s Skipped) answeredBy(answer *v1alpha1.BreakGlassStatus) bool {
	return answer.Request == s.request && (answer.State != v1alpha1.BreakGlassAccepted || answer.Until != nil)
}

// AwaitAnswer waits for the answer of the operator to a request for a VidraResource.
func (c *Client) AwaitAnswer(ctx context.Context, name string, skip Skipped) (answer *v1alpha1.BreakGlassStatus, err error) {
	_, err = c.questions.Watch(ctx, name, AnswerTimeout, func(vr *v1alpha1.VidraResource) bool {
		entry := owners.EntryOf(vr, skip.Object.ID)
		if entry == nil || entry.BreakGlass == nil {
			return false
		}
		answer = entry.BreakGlass
		return skip.answeredBy(answer)
	})
	if errors.Is(err, insight.ErrTimeout) {
		return nil, fmt.Errorf("VidraResource %s has not answered within %s: check `%s`", name, AnswerTimeout, c.program.Hint("status", name))
	}
	return answer, err
}
