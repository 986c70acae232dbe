package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// KubeconfigLabel marks a Secret with the kubeconfig of a destination. Any value
	// counts but "false".
	KubeconfigLabel = "cluster-kubeconfig"

	kubeconfigSelector = KubeconfigLabel + "," + KubeconfigLabel + "!=false"
)

// source is the stored part of a labelled Secret.
type source struct {
	metav1.ObjectMeta
	// all are the valid contexts of the kubeconfig.
	all []*access
	// err describes the invalid ones.
	err error
}

// secret returns namespace/name of the Secret.
func (s *source) secret() string { return cache.MetaObjectToName(&s.ObjectMeta).String() }

// toSource is a cache.TransformFunc that reduces a Secret to its source.
func toSource(obj any) (any, error) {
	secret, isSecret := obj.(*corev1.Secret)
	if !isSecret { // a source already
		return obj, nil
	}
	s := &source{ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: secret.Name, ResourceVersion: secret.ResourceVersion,
	}}
	s.all, s.err = readKubeconfig(s.secret(), secret.Data)
	for _, a := range s.all {
		a.scope = scopeOf(s.secret(), secret.Annotations)
	}
	return s, nil
}

// sources are the stored parts of all labelled Secrets.
type sources struct {
	all []*source
	// byOrigin has those with a context for each origin.
	byOrigin map[string][]*source
}

// newSources returns the sources of a store.
func newSources(store cache.Store) *sources {
	s := &sources{byOrigin: map[string][]*source{}}
	for _, obj := range store.List() {
		one, is := obj.(*source)
		if !is {
			continue
		}
		s.all = append(s.all, one)
		origins := map[string]struct{}{}
		for _, a := range one.all {
			origins[originOf(a.server)] = struct{}{}
		}
		for origin := range origins {
			s.byOrigin[origin] = append(s.byOrigin[origin], one)
		}
	}
	return s
}

// secrets reads the labelled Secrets, once run is called.
type secrets struct {
	namespace string
	// source lists and watches them.
	source cache.ListerWatcher
	// changed is called when Secrets, or err, have changed.
	changed func()

	// mu guards the fields below.
	mu sync.Mutex
	// store holds a *source for each Secret; nil until all of them were read.
	store cache.Store
	// read are the Secrets of the store, by the origins of their servers, too; nil after a change.
	read *sources
	// failures are the current errors of the verbs list and watch, with advice for the user.
	failures map[string]error
}

func newSecrets(client typedcorev1.SecretsGetter, namespace string, changed func()) *secrets {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.LabelSelector = kubeconfigSelector
			return client.Secrets(namespace).List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.LabelSelector = kubeconfigSelector
			return client.Secrets(namespace).Watch(ctx, opts)
		},
	}
	return &secrets{namespace: namespace, source: source, changed: changed, failures: map[string]error{}}
}

// run reads and watches the Secrets until ctx ends.
func (s *secrets) run(ctx context.Context) error {
	informer := cache.NewSharedIndexInformer(s.observed(), &corev1.Secret{}, 0, cache.Indexers{})
	if err := informer.SetTransform(toSource); err != nil {
		return fmt.Errorf("set the transform of the Secrets: %w", err)
	}
	stored := func() {
		s.mu.Lock()
		s.read = nil
		s.mu.Unlock()
		s.changed()
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { stored() }, DeleteFunc: func(any) { stored() },
		UpdateFunc: func(any, any) { stored() },
	})
	if err != nil {
		return fmt.Errorf("set the handler of the Secrets: %w", err)
	}
	var synced sync.WaitGroup
	synced.Go(func() {
		select {
		case <-ctx.Done():
		case <-registration.HasSyncedChecker().Done():
			s.mu.Lock()
			s.store = informer.GetStore()
			s.mu.Unlock()
			s.changed()
		}
	})
	// The status of the destinations replaces the log of client-go.
	informer.RunWithContext(klog.NewContext(ctx, logr.Discard()))
	synced.Wait()
	return nil
}

// readOnce reads the Secrets once.
func (s *secrets) readOnce(ctx context.Context) error {
	list, err := cache.ToListerWatcherWithContext(s.source).ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Secrets with the label %s %s: %w", KubeconfigLabel, inNamespace(s.namespace), err)
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		one, err := toSource(obj)
		if err != nil {
			return err
		}
		return store.Add(one)
	})
	if err != nil {
		return fmt.Errorf("read the Secrets with the label %s: %w", KubeconfigLabel, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = store
	return nil
}

// observed returns the source, whose results are recorded.
func (s *secrets) observed() cache.ListerWatcher {
	source := cache.ToListerWatcherWithContext(s.source)
	noting := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := source.ListWithContext(ctx, opts)
			s.note(ctx, "list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			stream, err := source.WatchWithContext(ctx, opts)
			// An API server that does not list with a WATCH, as Kubernetes 1.33 by default, says so: the reflector lists then.
			if !ptr.Deref(opts.SendInitialEvents, false) || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				s.note(ctx, "watch", err)
			}
			return stream, err
		},
	}
	return cache.ToListWatcherWithWatchListSemantics(noting, s.source)
}

// note records the result of a request for Secrets. A reflector may list with a WATCH and not
// repeat a LIST that failed, so a successful WATCH clears all failures.
func (s *secrets) note(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	before := maps.Clone(s.failures)
	delete(s.failures, verb)
	switch {
	case err != nil:
		s.failures[verb] = s.unreadable(verb, err)
	case verb == "watch":
		clear(s.failures)
	}
	same := maps.EqualFunc(before, s.failures, func(a, b error) bool { return a.Error() == b.Error() })
	s.mu.Unlock()
	if !same {
		s.changed()
	}
}

// sources returns the Secrets; nil until all of them were read. The error names the obstacle to the read.
func (s *secrets) sources() (found *sources, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == nil && s.store != nil {
		s.read = newSources(s.store)
	}
	return s.read, cmp.Or(s.failures["list"], s.failures["watch"])
}

// unreadable returns an error with the cause of unreadable Secrets, and the next step.
func (s *secrets) unreadable(verb string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("the Secrets with the label %s cannot be read: Vidra may not %s secrets %s: grant it list and watch there",
			KubeconfigLabel, verb, inNamespace(s.namespace))
	}
	return fmt.Errorf("the Secrets with the label %s %s cannot be read; Vidra retries: %s secrets: %s",
		KubeconfigLabel, inNamespace(s.namespace), verb, reasonOf(err))
}

func inNamespace(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return "in any namespace"
	}
	return "in namespace " + namespace
}
