package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// cluster reaches the cluster that the tour is given on.
type cluster struct {
	config  *rest.Config
	client  client.Client
	dynamic dynamic.Interface
	// core serves what needs no types.
	core rest.Interface
}

func newCluster(config *rest.Config) (*cluster, error) {
	// The edits are single requests; a limit on this side would be timed as well.
	config = rest.CopyConfig(config)
	config.QPS = -1
	c := &cluster{config: config}
	var err error
	if c.client, err = testenv.Client(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c.core = clientset.CoreV1().RESTClient()
	return c, nil
}

// connectTimeout bounds the first request.
const connectTimeout = 10 * time.Second

// servesVidra fails if the cluster cannot be reached or does not know
// VidraResources.
func (c *cluster) servesVidra(ctx context.Context) error {
	hello, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := c.core.Get().AbsPath("/version").Do(hello).Error(); err != nil {
		return fmt.Errorf("reach the API server at %s: %w", c.config.Host, err)
	}
	_, err := c.client.RESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind).GroupKind(), v1alpha1.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s does not serve VidraResources: install Vidra first, with `kubectl apply -k config/default`", c.config.Host)
	}
	if err != nil {
		return fmt.Errorf("ask %s which kinds it serves: %w", c.config.Host, err)
	}
	return nil
}

// resource is the client for an object's kind and namespace.
func (c *cluster) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	mapping, err := c.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}

// placed are the objects of a sample with their namespaces. Kinds that are not
// served are left as they are.
func (c *cluster) placed(s *sample) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, object := range s.objects {
		object = object.DeepCopy()
		namespaced, err := c.client.IsObjectNamespaced(object)
		if err == nil && namespaced && object.GetNamespace() == "" {
			object.SetNamespace(s.namespace)
		}
		all = append(all, object)
	}
	return all
}

func (c *cluster) get(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := c.resource(o)
	if err != nil {
		return nil, err
	}
	return resource.Get(ctx, o.GetName(), metav1.GetOptions{})
}

// delete deletes an object that may be gone already.
func (c *cluster) delete(ctx context.Context, o *unstructured.Unstructured) error {
	if err := client.IgnoreNotFound(c.client.Delete(ctx, o.DeepCopy())); err != nil {
		return fmt.Errorf("delete %s: %w", title(o), err)
	}
	return nil
}

// await waits until done, and says what it was waiting for when that takes too
// long. An error of done ends the wait.
func await(ctx context.Context, within time.Duration, what string, done func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, poll, within, true, done)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wait.Interrupted(err):
		return fmt.Errorf("waited %s in vain until %s", within, what)
	}
	return err
}

// awaitAbsent waits until an object does not exist.
func (c *cluster) awaitAbsent(ctx context.Context, o *unstructured.Unstructured) error {
	return await(ctx, patience, title(o)+" was gone", func(ctx context.Context) (bool, error) {
		_, err := c.get(ctx, o)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return true, nil
		}
		return false, err
	})
}

// awaitResource waits until done says so of a VidraResource.
func (c *cluster) awaitResource(ctx context.Context, within time.Duration, name, what string,
	done func(*v1alpha1.VidraResource) bool,
) (*v1alpha1.VidraResource, error) {
	vr := &v1alpha1.VidraResource{}
	err := await(ctx, within, "VidraResource "+name+" "+what, func(ctx context.Context) (bool, error) {
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, vr); err != nil {
			return false, err
		}
		return done(vr), nil
	})
	if ready := readyOf(vr); err != nil && ready != nil {
		err = fmt.Errorf("%w; it says Ready=%s, %s: %s", err, ready.Status, ready.Reason, ready.Message)
	}
	return vr, err
}

// readyOf is the Ready condition of the present generation, if there is one.
func readyOf(vr *v1alpha1.VidraResource) *metav1.Condition {
	ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != vr.Generation {
		return nil
	}
	return ready
}

// awaitReady waits until everything that a VidraResource wants is applied and
// watched.
func (c *cluster) awaitReady(ctx context.Context, name string) (*v1alpha1.VidraResource, error) {
	return c.awaitResource(ctx, patience, name, "was ready", func(vr *v1alpha1.VidraResource) bool {
		ready := readyOf(vr)
		return ready != nil && ready.Status == metav1.ConditionTrue
	})
}

// remove deletes the VidraResource of a sample.
func (c *cluster) remove(ctx context.Context, s *sample) error { return c.delete(ctx, s.object) }

// awaitGone waits until a VidraResource and all that it applied are gone.
func (c *cluster) awaitGone(ctx context.Context, s *sample) error {
	if err := c.awaitAbsent(ctx, s.object); err != nil {
		return fmt.Errorf("%w: its finalizer waits for the operator, which has to run until then", err)
	}
	for _, object := range c.placed(s) {
		if err := c.awaitAbsent(ctx, object); err != nil {
			return fmt.Errorf("%w, which VidraResource %s had applied", err, s.name)
		}
	}
	return nil
}

// awaitSign waits until an operator has reported on a VidraResource.
func (c *cluster) awaitSign(ctx context.Context, name string, within time.Duration) error {
	_, err := c.awaitResource(ctx, within, name, "had a status", func(vr *v1alpha1.VidraResource) bool {
		return readyOf(vr) != nil
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("no operator is at work: %w. %s", err, c.diagnose(ctx))
}

// operatorLabel is on the Deployment and the Pods of config/manager.
var operatorLabel = client.MatchingLabels{"app.kubernetes.io/name": "vidra-operator"}
