package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/writes"
)

const skipHelp = `Have Vidra revert no edit of an object, and not delete it, for a time: it sets the
break-glass annotations. spec.drift.maxBreakGlass of the VidraResource limits the time.
What the operator answers is printed, if you may read the VidraResource.

--end removes the annotations: edits that were made meanwhile are reverted.

Exit code 0 means that the operator accepted the request, or that you may not read its
answer, 1 that it did not accept or did not answer, or that the command failed.`

const skipExample = `  vidra skip configmap/settings -n shop --for 1h --reason "INC-42: try another greeting"
  vidra skip configmap/settings -n shop --end`

// skipFlags holds the flags of the command.
type skipFlags struct {
	kube     *kube
	duration time.Duration
	reason   string
	end      bool
}

func newSkip(k *kube) *cobra.Command {
	f := &skipFlags{kube: k}
	cmd := &cobra.Command{
		Use: "skip KIND/NAME", Short: "Have Vidra revert no edit of an object for a time (break-glass)",
		Long: skipHelp, Example: skipExample,
		Args: wants(countObject, formObject), ValidArgsFunction: k.completeObject,
		RunE: f.run,
	}
	cmd.Flags().DurationVar(&f.duration, "for", 0, "for how long, such as 1h")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the Events and the status")
	cmd.Flags().BoolVar(&f.end, "end", false, "end it")
	cmd.MarkFlagsMutuallyExclusive("for", "end")
	cmd.MarkFlagsMutuallyExclusive("reason", "end")
	return cmd
}

func (f *skipFlags) run(cmd *cobra.Command, args []string) error {
	switch {
	case !f.end && f.duration == 0:
		return errors.New("say for how long with --for, such as --for 1h, or end an exemption with --end")
	case !f.end && f.duration < 0:
		return fmt.Errorf("--for %s: want a duration above 0, such as 1h", f.duration)
	case !f.end && strings.TrimSpace(f.reason) == "":
		return errors.New("--reason is missing: without one, Vidra ignores the exemption")
	}
	target, err := f.kube.target(args)
	if err != nil {
		return err
	}
	client, err := f.kube.writes()
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	if f.end {
		id, err := client.EndSkip(ctx, target)
		if err != nil {
			return err
		}
		return printText(out, render.Sprintf("%s: ended; edits are reverted\n", id))
	}
	skip, err := client.Skip(ctx, target, time.Now().Add(f.duration), f.reason)
	if err != nil {
		return err
	}
	if err := printText(out, render.Sprintf("%s: asked for no reverts until %s\n", skip.Object.ID, skip.Until.Format(time.RFC3339))); err != nil {
		return err
	}
	return f.awaitAnswers(ctx, client, skip, out, cmd.ErrOrStderr())
}

// awaitAnswers prints the answer of each owner.
func (f *skipFlags) awaitAnswers(ctx context.Context, client *writes.Client, skip writes.Skipped, out, errOut io.Writer) error {
	if len(skip.Object.Owners) == 0 {
		printMessage(errOut, "you may not read the VidraResource: its answer is in the Events of the object")
	}
	for _, vr := range skip.Object.Owners {
		answer, err := client.AwaitAnswer(ctx, vr.Name, skip)
		switch {
		case apierrors.IsForbidden(err):
			printMessage(errOut, "you may not watch VidraResources: the answer is in the Events of the object")
		case err != nil:
			return err
		case answer.State != v1alpha1.BreakGlassAccepted:
			return fmt.Errorf("VidraResource %s: %s: %s", vr.Name, answer.State, answer.Message)
		default:
			if err := printText(out, render.Sprintf("VidraResource %s: %s until %s\n", vr.Name, answer.State, answer.Until.UTC().Format(time.RFC3339))); err != nil {
				return err
			}
		}
	}
	return nil
}
