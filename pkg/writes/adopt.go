package writes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// Adopt has the operator adopt the objects that it refused to adopt for a VidraResource, and returns their names; none if it
// refused none. It sets spec.adopt to Always until the operator is done, and then to its former value, also after the end of
// ctx.
func (c *Client) Adopt(ctx context.Context, name string, timeout time.Duration) (adopted []string, err error) {
	vr, err := c.questions.VidraResource(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, p := range vr.Status.Problems {
		if p.Reason == v1alpha1.ReasonAdoptionRefused {
			adopted = append(adopted, insight.ProblemObject(p.Object))
		}
	}
	if len(adopted) == 0 {
		return nil, nil
	}
	policy := vr.AdoptPolicy()
	generation, err := c.spec(ctx, name, "adopt", string(v1alpha1.AdoptAlways))
	if err != nil {
		return nil, err
	}
	defer func() { // also after ctrl-C
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), AnswerTimeout)
		defer cancel()
		if _, endErr := c.spec(ending, name, "adopt", string(policy)); endErr != nil {
			err = errors.Join(err, fmt.Errorf("spec.adopt is still Always; set it to %s: %w", policy, endErr))
		}
	}()
	after, err := c.questions.Watch(ctx, name, timeout, func(vr *v1alpha1.VidraResource) bool {
		return vr.Status.ObservedGeneration >= generation && insight.InState(vr, insight.StateSettled)
	})
	if after == nil || err != nil && !errors.Is(err, insight.ErrTimeout) {
		return nil, err
	}
	for _, p := range after.Status.Problems {
		if p.Reason == v1alpha1.ReasonAdoptionRefused {
			return nil, fmt.Errorf("VidraResource %s is still refused %s: %s", name, insight.ProblemObject(p.Object), p.Message)
		}
	}
	return adopted, err
}
