package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

const skipHelp = `Have Vidra revert no edit of an object, and not delete it, for a time: it sets the
break-glass annotations. spec.drift.maxBreakGlass of the VidraResource limits the time.
What the operator answers is printed, if you may read the VidraResource.

--end removes the annotations: edits that were made meanwhile are reverted.

Exit code 0 means that the operator accepted the request, or that you may not read its
answer, 1 that it did not accept or did not answer, or that the command failed.`

const skipExample = `  vidra skip configmap/settings -n shop --for 1h --reason "INC-42: try another greeting"
  vidra skip configmap/settings -n shop --end`

// answerTimeout is how long the command waits for the answer of the operator.
const answerTimeout = 10 * time.Second

// skipFlags holds the flags of the command.
type skipFlags struct {
	*kube
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
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().DurationVar(&f.duration, "for", 0, "for how long, such as 1h")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the Events and the status")
	cmd.Flags().BoolVar(&f.end, "end", false, "end it")
	cmd.MarkFlagsMutuallyExclusive("for", "end")
	cmd.MarkFlagsMutuallyExclusive("reason", "end")
	return cmd
}

func (f *skipFlags) run(ctx context.Context, args []string, out, errOut io.Writer) error {
	switch {
	case !f.end && f.duration == 0:
		return errors.New("say for how long with --for, such as --for 1h, or end an exemption with --end")
	case !f.end && f.duration < 0:
		return fmt.Errorf("--for %s: want a duration above 0, such as 1h", f.duration)
	case !f.end && strings.TrimSpace(f.reason) == "":
		return errors.New("--reason is missing: without one, Vidra ignores the exemption")
	}
	t, client, err := f.managed(ctx, args)
	if err != nil {
		return err
	}
	annotations := map[string]any{v1alpha1.BreakGlassUntilAnnotation: nil, v1alpha1.BreakGlassReasonAnnotation: nil}
	until := time.Now().Add(f.duration).UTC().Truncate(time.Second)
	if !f.end {
		annotations[v1alpha1.BreakGlassUntilAnnotation] = until.Format(time.RFC3339)
		annotations[v1alpha1.BreakGlassReasonAnnotation] = f.reason
	}
	if err := annotate(ctx, client, t, annotations); err != nil {
		return err
	}
	if f.end {
		return printText(out, sprintf("%s: ended; edits are reverted\n", t.ID))
	}
	if err := printText(out, sprintf("%s: asked for no reverts until %s\n", t.ID, until.Format(time.RFC3339))); err != nil {
		return err
	}
	return awaitAnswer(ctx, client, t, object.Identify([]byte(until.Format(time.RFC3339)), []byte(strings.TrimSpace(f.reason))), out, errOut)
}

// awaitAnswer prints what each owner answers to a request for break-glass.
func awaitAnswer(ctx context.Context, client dynamic.Interface, t insight.Managed, request string, out, errOut io.Writer) error {
	if len(t.Owners) == 0 {
		printMessage(errOut, "you may not read the VidraResource: its answer is in the Events of the object")
	}
	for _, vr := range t.Owners {
		answer := (*v1alpha1.BreakGlassStatus)(nil)
		_, err := watchVidraResource(ctx, client, vr.Name, answerTimeout, func(vr *v1alpha1.VidraResource) bool {
			entry := owners.EntryOf(vr, t.ID)
			if entry == nil || entry.BreakGlass == nil {
				return false
			}
			answer = entry.BreakGlass
			return answer.Request == request
		})
		switch {
		case errors.Is(err, errTimeout):
			return fmt.Errorf("VidraResource %s has not answered within %s: check `%s`", vr.Name, answerTimeout, hint("status", vr.Name))
		case apierrors.IsForbidden(err):
			printMessage(errOut, "you may not watch VidraResources: the answer is in the Events of the object")
		case err != nil:
			return err
		case answer.State != v1alpha1.BreakGlassAccepted:
			return fmt.Errorf("VidraResource %s: %s: %s", vr.Name, answer.State, answer.Message)
		default:
			if err := printText(out, sprintf("VidraResource %s: %s until %s\n", vr.Name, answer.State, answer.Until.UTC().Format(time.RFC3339))); err != nil {
				return err
			}
		}
	}
	return nil
}

// annotate sets annotations of the object, and removes those that are nil.
func annotate(ctx context.Context, client dynamic.Interface, t insight.Managed, annotations map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	objects := client.Resource(t.Resource).Namespace(t.ID.Namespace)
	_, err = objects.Patch(ctx, t.ID.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not patch %s: ask for that right, or for an edit of the VidraResource: %w", t.ID, err)
	} else if err != nil {
		return fmt.Errorf("annotate %s: %w", t.ID, err)
	}
	return nil
}

// managed finds the managed object that the arguments name.
func (k *kube) managed(ctx context.Context, args []string) (insight.Managed, dynamic.Interface, error) {
	target, err := k.target(args)
	if err != nil {
		return insight.Managed{}, nil, err
	}
	questions, err := k.insight()
	if err != nil {
		return insight.Managed{}, nil, err
	}
	client, err := k.dynamic()
	if err != nil {
		return insight.Managed{}, nil, err
	}
	found, err := questions.Managed(ctx, target)
	return found, client, err
}
