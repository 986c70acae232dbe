package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const adoptHelp = `Adopt the objects of a VidraResource that exist already and that it was refused: Vidra
changes them to what the manifest says, and manages them. ` + "`vidra diff NAME`" + ` shows the
changes before. The command sets spec.adopt to Always until the operator is done, and then
to what it was.

Exit code 0 means that nothing is refused any more, 1 that an object still is, that the
time is over or that the command failed.`

const orphanHelp = `Have objects stay in place, unmanaged, when Vidra would delete them.

  orphan NAME        all objects, when the VidraResource is deleted: sets
                     spec.deletionPolicy to Orphan
  orphan KIND/NAME   one object, when it leaves the manifest and when the VidraResource
                     is deleted: sets the annotation
                     vidraresource.infrahub.operators.com/keep`

const orphanExample = `  vidra orphan shop && kubectl delete vidraresource shop
  vidra orphan pvc/data -n shop`

func newAdopt(k *kube) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "adopt NAME", Short: "Adopt the objects that a VidraResource was refused",
		Long: adoptHelp, Example: "  vidra adopt shop",
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := k.dynamic()
			if err != nil {
				return err
			}
			return adopt(cmd.Context(), client, names[0], timeout, cmd.OutOrStdout())
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait for the operator at most")
	return cmd
}

// adopt lets the operator adopt what it refused.
func adopt(ctx context.Context, client dynamic.Interface, name string, timeout time.Duration, out io.Writer) (err error) {
	vr, err := getVidraResource(ctx, client, name)
	if err != nil {
		return err
	}
	var refused []string
	for _, p := range vr.Status.Problems {
		if p.Reason == v1alpha1.ReasonAdoptionRefused {
			refused = append(refused, render.ProblemObject(p.Object))
		}
	}
	if len(refused) == 0 {
		return printText(out, sprintf("VidraResource %s was refused no object\n", name))
	}
	policy := vr.AdoptPolicy()
	set := func(ctx context.Context, policy v1alpha1.AdoptPolicy) (int64, error) {
		u, err := patchVidraResource(ctx, client, name, map[string]any{"spec": map[string]any{"adopt": string(policy)}})
		if err != nil {
			return 0, err
		}
		return u.GetGeneration(), nil
	}
	generation, err := set(ctx, v1alpha1.AdoptAlways)
	if err != nil {
		return err
	}
	defer func() { // also after ctrl-C
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		if _, endErr := set(ending, policy); endErr != nil {
			err = errors.Join(err, fmt.Errorf("spec.adopt is still Always; set it to %s: %w", policy, endErr))
		}
	}()
	after, err := watchVidraResource(ctx, client, name, timeout, func(vr *v1alpha1.VidraResource) bool {
		return vr.Status.ObservedGeneration >= generation && inState(vr, untilSettled)
	})
	if after == nil || err != nil && !errors.Is(err, errTimeout) {
		return err
	}
	for _, p := range after.Status.Problems {
		if p.Reason == v1alpha1.ReasonAdoptionRefused {
			return fmt.Errorf("VidraResource %s is still refused %s: %s", name, render.ProblemObject(p.Object), p.Message)
		}
	}
	if err != nil {
		return err
	}
	return printText(out, sprintf("VidraResource %s adopted %s\n", name, strings.Join(refused, ", ")))
}

func newOrphan(k *kube) *cobra.Command {
	return &cobra.Command{
		Use: "orphan NAME | KIND/NAME", Short: "Have objects stay in place when Vidra would delete them",
		Long: orphanHelp, Example: orphanExample,
		Args: wants(cobra.RangeArgs(1, 2), formName, formObject), ValidArgsFunction: k.completeNameOrObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 || strings.Contains(args[0], "/") {
				return k.orphanObject(cmd.Context(), args, cmd.OutOrStdout())
			}
			client, err := k.dynamic()
			if err != nil {
				return err
			}
			_, err = patchVidraResource(cmd.Context(), client, args[0], map[string]any{"spec": map[string]any{"deletionPolicy": string(v1alpha1.DeletionOrphan)}})
			if err != nil {
				return err
			}
			return printText(cmd.OutOrStdout(), sprintf("VidraResource %s: its objects stay when it is deleted\n", args[0]))
		},
	}
}

// orphanObject sets the annotation by which an object stays.
func (k *kube) orphanObject(ctx context.Context, args []string, out io.Writer) error {
	t, client, err := k.managed(ctx, args)
	if err != nil {
		return err
	}
	if err := annotate(ctx, client, t, map[string]any{v1alpha1.KeepAnnotation: "true"}); err != nil {
		return err
	}
	return printText(out, sprintf("%s stays when it leaves the manifest, and when its VidraResource is deleted\n", t.ID))
}
