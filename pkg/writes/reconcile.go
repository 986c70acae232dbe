package writes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// Reconcile requests a reconcile of a VidraResource now. It returns the request.
func (c *Client) Reconcile(ctx context.Context, name string) (request string, err error) {
	vr, err := c.questions.VidraResource(ctx, name)
	if err != nil {
		return "", err
	}
	request = newRequest(vr, time.Now())
	_, err = c.patch(ctx, name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.ReconcileRequestedAtAnnotation: request}},
	})
	return request, err
}

// AwaitReconcile waits until the operator has carried out a request, and returns the report of the VidraResource.
func (c *Client) AwaitReconcile(ctx context.Context, name, request string, timeout time.Duration) (insight.Report, error) {
	vr, err := c.questions.Watch(ctx, name, timeout, func(vr *v1alpha1.VidraResource) bool {
		return vr.Status.LastHandledReconcileAt == request
	})
	if errors.Is(err, insight.ErrTimeout) {
		return insight.Report{}, fmt.Errorf("%w: check that the operator runs, with `%s`", err, c.program.Hint("status", name))
	} else if err != nil {
		return insight.Report{}, err
	}
	report := c.program.ReportOf(vr)
	if !insight.InState(vr, insight.StateReady) {
		return report, fmt.Errorf("VidraResource %s was reconciled, and is not ready: %s", name, report.Ready)
	}
	return report, nil
}

// newRequest returns a request for a reconcile that is later than those that a VidraResource has and had: the operator carries out the
// latest one only, and spec.reconciledAt may be in the future.
func newRequest(vr *v1alpha1.VidraResource, now time.Time) string {
	for _, text := range []string{vr.ReconcileRequest(), vr.Status.LastHandledReconcileAt} {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil && !at.Before(now) {
			now = at.Add(1)
		}
	}
	return now.UTC().Format(time.RFC3339Nano)
}
