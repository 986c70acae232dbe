package main

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/e2e/stopwatch"
)

// floorCommand is the sub-command that this process starts itself with.
const floorCommand = "floor"

// runFloor is the floor: the least that can revert an edit. It applies an
// object of each kind, watches the kind bare, without a cache, and answers each
// event that shows its object otherwise than applied with one server-side-apply
// PATCH; it does nothing else. It ends with its standard input.
//
// It is a process of its own with a ServiceAccount of its own, so that it pays
// for authentication, authorization, its connection and the scheduler what the
// operator pays.
func runFloor(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	fs := childFlags(floorCommand)
	namespace := fs.String("namespace", "", "The namespace of the floor's objects.")
	thing := fs.Bool("thing", false, "Keep an object of the first kind that the benchmark installs, and of no other kind.")
	config, err := childConfig(fs, args)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := untilParentEnds(ctx, in)
	defer cancel()
	kept := kinds
	if *thing {
		kept = []*kind{thingKind(0)}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, k := range kept {
		w, err := newWatcher(ctx, client, k, *namespace)
		if err != nil {
			return err
		}
		group.Go(func() error { return w.run(ctx) })
	}
	if _, err := fmt.Fprintln(out, childReady); err != nil {
		return err
	}
	return group.Wait()
}

// watcher keeps one object as it is applied.
type watcher struct {
	// all are the objects of the kind in all namespaces, of which the one in namespace is kept.
	all       dynamic.NamespaceableResourceInterface
	namespace string
	want      *unstructured.Unstructured
	body      []byte
	events    watch.Interface
	// seen is the version from which a watch that ended goes on.
	seen string
}

// newWatcher applies the object and begins to watch its kind, in all namespaces
// and filtered by a label, as the operator does.
func newWatcher(ctx context.Context, client dynamic.Interface, k *kind, namespace string) (*watcher, error) {
	want, err := k.in(namespace)
	if err != nil {
		return nil, err
	}
	body, err := want.MarshalJSON()
	if err != nil {
		return nil, err
	}
	w := &watcher{all: client.Resource(k.gvr), namespace: namespace, want: want, body: body}
	live, err := w.apply(ctx)
	if err != nil {
		return nil, err
	}
	w.seen = live.GetResourceVersion()
	return w, w.watch(ctx)
}

func (w *watcher) apply(ctx context.Context) (*unstructured.Unstructured, error) {
	return w.all.Namespace(w.namespace).Patch(ctx, w.want.GetName(), types.ApplyPatchType, w.body,
		metav1.PatchOptions{FieldManager: floorCommand, Force: ptr.To(true)})
}

// watch watches from what was seen on.
func (w *watcher) watch(ctx context.Context) (err error) {
	w.events, err = w.all.Watch(ctx, metav1.ListOptions{
		LabelSelector: "bench=" + w.namespace, ResourceVersion: w.seen, AllowWatchBookmarks: true,
	})
	return err
}

// run answers events until ctx ends. The API server ends a watch whose client is slow, and each after some minutes.
func (w *watcher) run(ctx context.Context) error {
	for {
		if err := w.answer(ctx); ctx.Err() != nil || err != nil {
			return err
		}
		if err := w.watch(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("the floor could not watch %s: %w", w.want.GetKind(), err)
		}
	}
}

// answer answers the events of one watch.
func (w *watcher) answer(ctx context.Context) error {
	defer w.events.Stop()
	for event := range w.events.ResultChan() {
		if ctx.Err() != nil {
			return nil
		}
		live, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return fmt.Errorf("the floor's watch of %s failed: %v", w.want.GetKind(), event.Object)
		}
		w.seen = live.GetResourceVersion()
		if live.GetName() != w.want.GetName() || live.GetNamespace() != w.want.GetNamespace() {
			continue // that of a storm, or no object at all
		}
		if event.Type != watch.Deleted && stopwatch.Covers(live.Object, w.want.Object) {
			continue // our own echo, or a status
		}
		if _, err := w.apply(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("the floor could not apply %s: %w", w.want.GetKind(), err)
		}
	}
	return nil
}

// startFloor starts a process that runs runFloor, and returns when it watches.
func startFloor(ctx context.Context, kubeconfig, namespace string, args ...string) (*child, error) {
	return startReady(ctx, "the floor", append([]string{floorCommand, "-kubeconfig", kubeconfig, "-namespace", namespace}, args...)...)
}
