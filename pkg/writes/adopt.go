package writes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Adopt has the operator adopt the objects that it refused to adopt for a VidraResource, and returns their names; none if it
// refused none. It sets spec.adopt to Always until the operator is done, and then to its former value, also after the end of
// ctx. The value of another writer meanwhile stays.
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
		if endErr := c.endAdoption(ending, name, policy); endErr != nil {
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

// endAdoption sets spec.adopt to a policy if it is still Always.
func (c *Client) endAdoption(ctx context.Context, name string, policy v1alpha1.AdoptPolicy) error {
	const path = "/spec/adopt"
	body, err := json.Marshal([]ownership.PatchOp{{Op: "test", Path: path, Value: string(v1alpha1.AdoptAlways)}, {Op: "replace", Path: path, Value: string(policy)}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	if _, err = c.send(ctx, name, types.JSONPatchType, body); err == nil {
		return nil
	}
	now, getErr := c.dynamic.Resource(v1alpha1.Resource).Get(ctx, name, metav1.GetOptions{})
	if object.IsAbsent(getErr, name) {
		return nil
	}
	if getErr == nil {
		if adopt, _, _ := unstructured.NestedString(now.Object, "spec", "adopt"); adopt != string(v1alpha1.AdoptAlways) {
			return nil
		}
	}
	return err
}
