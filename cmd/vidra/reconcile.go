package main

import (
	"time"

	"github.com/spf13/cobra"

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
	kube    *kube
	wait    bool
	timeout time.Duration
}

func newReconcile(k *kube) *cobra.Command {
	f := &reconcileFlags{kube: k}
	cmd := &cobra.Command{
		Use: "reconcile NAME...", Short: "Request a reconcile of VidraResources now",
		Long: reconcileHelp, Example: "  vidra reconcile shop --wait",
		Args: wants(cobra.MinimumNArgs(1), formName), ValidArgsFunction: k.completeNames,
		RunE: f.run,
	}
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until it is done")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultTimeout, "how long to wait at most")
	return cmd
}

func (f *reconcileFlags) run(cmd *cobra.Command, names []string) error {
	client, err := f.kube.writes()
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	requests := map[string]string{}
	for _, name := range names {
		if requests[name], err = client.Reconcile(ctx, name); err != nil {
			return err
		}
		if !f.wait {
			if err := printText(out, render.Sprintf("requested a reconcile of VidraResource %s\n", name)); err != nil {
				return err
			}
		}
	}
	if !f.wait {
		return nil
	}
	for _, name := range names {
		report, err := client.AwaitReconcile(ctx, name, requests[name], f.timeout)
		if err != nil {
			return err
		}
		if err := printText(out, render.Sprintf("VidraResource %s was reconciled: %s\n", name, render.ObjectCounts(report.Objects))); err != nil {
			return err
		}
	}
	return nil
}
