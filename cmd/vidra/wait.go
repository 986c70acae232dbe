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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

const waitHelp = `Wait until a VidraResource is in a state.

  ready     its present spec is applied, and its objects are watched
  healthy   ready, and all objects are healthy
  settled   the operator has nothing more to do: it is ready, or only a user can help

The command fails at the end of --timeout, with what is in the way.

Exit code 0 means that the VidraResource is in the state, 1 that the time is over or that
the command failed.`

const waitExample = `  vidra wait shop --for ready
  vidra wait shop --for healthy --timeout 5m`

// defaultTimeout is that of kubectl wait.
const defaultTimeout = 30 * time.Second

// The states that a user can wait for.
const (
	untilReady   = "ready"
	untilHealthy = "healthy"
	untilSettled = "settled"
)

var waitStates = []string{untilReady, untilHealthy, untilSettled}

func newWait(k *kube) *cobra.Command {
	var until string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "wait NAME", Short: "Wait until a VidraResource is ready, healthy or settled",
		Long: waitHelp, Example: waitExample,
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			state, err := oneOf("for", until, waitStates)
			if err != nil {
				return err
			}
			client, err := k.dynamic()
			if err != nil {
				return err
			}
			vr, err := getVidraResource(cmd.Context(), client, names[0]) // an error of it says what to do
			if err != nil {
				return err
			}
			return waitUntil(cmd.Context(), client, vr, state, timeout, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&until, "for", untilReady, "ready, healthy or settled")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait at most")
	return cmd
}

// waitUntil waits until a VidraResource is in a state, and prints it.
func waitUntil(ctx context.Context, client dynamic.Interface, vr *v1alpha1.VidraResource, state string, timeout time.Duration, out io.Writer) error {
	name := vr.Name
	last, err := watchVidraResource(ctx, client, name, timeout, func(vr *v1alpha1.VidraResource) bool { return inState(vr, state) })
	if err == nil {
		return printText(out, sprintf("VidraResource %s is %s\n", name, state))
	}
	if !errors.Is(err, errTimeout) {
		return err
	}
	if last != nil {
		vr = last
	}
	why := insight.Program(program).ReportOf(vr).Why
	if len(why) == 0 {
		why = []string{"it is not known whether its objects are healthy"}
	}
	return fmt.Errorf("VidraResource %s is not %s after %s: %s", name, state, timeout, strings.Join(why, "; "))
}

// inState reports whether a VidraResource is in one of waitStates.
func inState(vr *v1alpha1.VidraResource, state string) bool {
	present := vr.Status.ObservedGeneration == vr.Generation
	ready := present && meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionReady)
	switch state {
	case untilReady:
		return ready
	case untilHealthy:
		return ready && meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionHealthy)
	}
	return ready || present && meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady) != nil &&
		!meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionReconciling)
}

// errTimeout is what waiting fails with at its end.
var errTimeout = errors.New("timed out")

// watchVidraResource waits until done holds for a VidraResource, and returns it as it was last. A watch
// that ends is started again.
func watchVidraResource(
	ctx context.Context, client dynamic.Interface, name string, timeout time.Duration, done func(*v1alpha1.VidraResource) bool,
) (*v1alpha1.VidraResource, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	resource := client.Resource(vidraResources)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return resource.Watch(ctx, o)
		},
	}
	var last *v1alpha1.VidraResource
	exists := func(store cache.Store) (bool, error) {
		if len(store.List()) == 0 {
			return false, fmt.Errorf("VidraResource %s does not exist", name)
		}
		return false, nil
	}
	_, err := watchtools.UntilWithSync(waiting, source, &unstructured.Unstructured{}, exists, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return false, apierrors.FromObject(e.Object)
		}
		if e.Type == watch.Deleted {
			return false, fmt.Errorf("VidraResource %s was deleted", name)
		}
		vr, err := asVidraResource(u)
		if err != nil {
			return false, err
		}
		last = vr
		return done(vr), nil
	})
	switch {
	case err == nil:
		return last, nil
	case ctx.Err() == nil && waiting.Err() != nil:
		return last, fmt.Errorf("VidraResource %s: %w after %s", name, errTimeout, timeout)
	}
	return last, err
}
