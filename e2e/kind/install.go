package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// readyTimeout bounds the wait until the operator is ready, and until it is removed.
	readyTimeout = 3 * time.Minute
	// finalizeTimeout bounds the wait until the operator has finalized the VidraResources that tests left.
	finalizeTimeout = time.Minute
)

// installation is Vidra in a cluster that did not have it.
type installation struct {
	client client.Client
	helm   func(ctx context.Context, args ...string) error
	// namespace and crd are what helm does not remove.
	namespace *corev1.Namespace
	crds      []client.Object
	say       func(format string, args ...any)
}

// install installs the chart in a cluster that does not have Vidra, and returns a function that removes it.
func (r *run) install(ctx context.Context) (remove func() error, err error) {
	nothing := func() error { return nil }
	i, err := r.newInstallation(ctx)
	if err != nil {
		return nothing, err
	}
	for _, object := range append([]client.Object{i.namespace}, i.crds...) {
		switch err := i.client.Get(ctx, client.ObjectKeyFromObject(object), object); {
		case err == nil:
			return nothing, fmt.Errorf("the cluster has the %T %s: the tests stop and restart the operator, so they use a cluster without Vidra", object, object.GetName())
		case !apierrors.IsNotFound(err):
			return nothing, err
		}
	}
	if err := i.client.Create(ctx, i.namespace); err != nil {
		return nothing, err
	}
	args := append([]string{"install", releaseName, filepath.Join(r.root, "config", "chart"), "--wait"}, imageValues(r.image)...)
	// The backstop is off: it sends requests at any time, and tests count them.
	if err := i.helm(ctx, append(args, "--set-string=flags.backstop-interval=0s", "--timeout="+readyTimeout.String())...); err != nil {
		return i.remove, err
	}
	r.say("the chart is installed")
	return i.remove, nil
}

// releaseName is the name of the release of helm.
const releaseName = "vidra"

// newInstallation prepares the installation, and builds helm.
func (r *run) newInstallation(ctx context.Context) (*installation, error) {
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	if err != nil {
		return nil, err
	}
	c, err := testenv.Client(config)
	if err != nil {
		return nil, err
	}
	binary, err := testenv.Helm(ctx, testenv.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	home := filepath.Join(r.dir, "helm")
	helm := func(ctx context.Context, args ...string) error {
		cmd := exec.CommandContext(ctx, binary, append(args, "--namespace="+testenv.OperatorNamespace, "--kubeconfig="+r.kubeconfig)...)
		cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("running helm %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	return &installation{
		client: c, helm: helm, say: r.say,
		namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: testenv.OperatorNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		}},
		crds: []client.Object{
			&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vidraresources." + v1alpha1.GroupVersion.Group}},
			&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "infrahubsyncs." + v1alpha1.GroupVersion.Group}},
		},
	}, nil
}

// imageValues are the arguments of helm that select an image, such as registry:5000/vidra-operator:dev, or
// one with a digest.
func imageValues(image string) []string {
	image, digest, _ := strings.Cut(image, "@")
	tag := ""
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image, tag = image[:colon], image[colon+1:]
	}
	values := []string{"--set-string=image.repository=" + image, "--set-string=image.digest=" + digest}
	if tag != "" {
		values = append(values, "--set-string=image.tag="+tag)
	}
	return values
}

// remove deletes the VidraResources that are left, and then what install made.
func (i *installation) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*readyTimeout)
	defer cancel()
	err := errors.Join(
		i.deleteVidraResources(ctx),
		i.helm(ctx, "uninstall", releaseName, "--wait", "--ignore-not-found", "--timeout="+readyTimeout.String()),
	)
	for _, object := range append(slices.Clone(i.crds), i.namespace) {
		err = errors.Join(err, i.delete(ctx, object))
	}
	return err
}

// deleteVidraResources deletes all VidraResources. Those that the operator does not finalize, because it does not
// run or because a test has failed, lose their finalizers.
func (i *installation) deleteVidraResources(ctx context.Context) error {
	if err := i.client.DeleteAllOf(ctx, &v1alpha1.VidraResource{}); err != nil {
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("deleting all VidraResources: %w", err)
	}
	left := &v1alpha1.VidraResourceList{}
	err := wait.PollUntilContextTimeout(ctx, time.Second/2, finalizeTimeout, true, func(ctx context.Context) (bool, error) {
		err := i.client.List(ctx, left)
		return len(left.Items) == 0, err
	})
	if !wait.Interrupted(err) {
		return err
	}
	for n := range left.Items {
		i.say("the operator did not finalize VidraResource %s: its finalizers are removed, and its objects stay", left.Items[n].Name)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := client.IgnoreNotFound(i.client.Patch(ctx, &left.Items[n], patch)); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes an object, and waits until it is gone.
func (i *installation) delete(ctx context.Context, object client.Object) error {
	err := wait.PollUntilContextTimeout(ctx, time.Second/2, readyTimeout, true, func(ctx context.Context) (bool, error) {
		err := i.client.Delete(ctx, object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("deleting the %T %s: %w", object, object.GetName(), err)
	}
	return nil
}
