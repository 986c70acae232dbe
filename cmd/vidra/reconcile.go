package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const reconcileHelp = `Request that the operator compares all objects of VidraResources with their manifests
now, and tries again what failed. It sets the annotation
vidraresource.infrahub.operators.com/reconcile-requested-at.

With --wait, the command waits until the operator has done so. Exit code 0 then means
that the VidraResources are ready, 1 that one is not, that the time is over or that the
command failed.`

// reconcileFlags holds the flags of the command.
type reconcileFlags struct {
	*kube
	wait    bool
	timeout time.Duration
}

func newReconcile(k *kube) *cobra.Command {
	f := &reconcileFlags{kube: k}
	cmd := &cobra.Command{
		Use: "reconcile NAME...", Short: "Request a reconcile of VidraResources now",
		Long: reconcileHelp, Example: "  vidra reconcile shop --wait",
		Args: wants(cobra.MinimumNArgs(1), formName), ValidArgsFunction: k.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			return f.run(cmd.Context(), names, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until it is done")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultTimeout, "how long to wait at most")
	return cmd
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

func (f *reconcileFlags) run(ctx context.Context, names []string, out io.Writer) error {
	client, err := f.dynamic()
	if err != nil {
		return err
	}
	requests := map[string]string{}
	for _, name := range names {
		vr, err := getVidraResource(ctx, client, name)
		if err != nil {
			return err
		}
		request := newRequest(vr, time.Now())
		_, err = patchVidraResource(ctx, client, name, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{v1alpha1.ReconcileRequestedAtAnnotation: request}},
		})
		if err != nil {
			return err
		}
		requests[name] = request
		if !f.wait {
			if err := printText(out, sprintf("requested a reconcile of VidraResource %s\n", name)); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if !f.wait {
			break
		}
		vr, err := watchVidraResource(ctx, client, name, f.timeout, func(vr *v1alpha1.VidraResource) bool {
			return vr.Status.LastHandledReconcileAt == requests[name]
		})
		if err != nil {
			return fmt.Errorf("%w: check that the operator runs, with `%s`", err, hint("status", name))
		}
		report := insight.Program(program).ReportOf(vr)
		if !inState(vr, untilReady) {
			return fmt.Errorf("VidraResource %s was reconciled, and is not ready: %s", name, report.Ready)
		}
		if err := printText(out, sprintf("VidraResource %s was reconciled: %s\n", name, render.ObjectCounts(report.Objects))); err != nil {
			return err
		}
	}
	return nil
}
