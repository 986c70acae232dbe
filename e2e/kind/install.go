package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// readyTimeout bounds the wait until the operator is ready, and until it is removed.
const readyTimeout = 3 * time.Minute

// install installs Vidra in a cluster that does not have it, and returns a function that removes it.
func (r *run) install(ctx context.Context) (remove func() error, err error) {
	nothing := func() error { return nil }
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	if err != nil {
		return nothing, err
	}
	c, err := testenv.Client(config)
	if err != nil {
		return nothing, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testenv.OperatorNamespace}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
		return nothing, errors.Join(err, fmt.Errorf("the cluster has a namespace %s: the tests stop and restart the operator, so they use a cluster without Vidra", namespace.Name))
	}
	objects, err := testenv.Render(filepath.Join(r.root, "config", "default"))
	if err != nil {
		return nothing, err
	}
	for _, object := range objects {
		if err := r.adapt(object); err != nil {
			return nothing, err
		}
	}
	remove = func() error { return r.uninstall(c, objects) }
	if err := testenv.Apply(ctx, config, objects); err != nil {
		return remove, err
	}
	err = awaitAvailable(ctx, c)
	r.say("Vidra is installed")
	return remove, err
}

// adapt sets the image of the operator, and turns the backstop off: it sends requests at any
// time, and tests count them.
func (r *run) adapt(object *unstructured.Unstructured) error {
	if object.GetKind() != "Deployment" {
		return nil
	}
	containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	container := containers[0].(map[string]any) //nolint:forcetypeassert // the API server accepts no other
	container["image"] = r.image
	args, _, err := unstructured.NestedSlice(container, "args")
	if err != nil {
		return err
	}
	container["args"] = append(args, "--backstop-interval=0")
	return unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers")
}

// awaitAvailable waits until the Deployment of the operator is available.
func awaitAvailable(ctx context.Context, c client.Client) error {
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: testenv.OperatorDeployment}
	err := wait.PollUntilContextTimeout(ctx, time.Second/2, readyTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, key, d)
		return d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == *d.Spec.Replicas, err
	})
	if err != nil {
		return fmt.Errorf("waiting until Deployment %s is available: %w: %+v", key, err, d.Status)
	}
	return nil
}

// uninstall deletes what install applied, VidraResources first, which the operator finalizes.
func (r *run) uninstall(c client.Client, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	slices.Reverse(objects) // the CRD and the namespace are the first that were applied
	for _, object := range objects {
		if err := c.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("removing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
