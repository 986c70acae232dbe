package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// Where the objects of the two sides live.
	floorNamespace = "bench-floor"
	vidraNamespace = "bench-vidra"
	// resourceName is the name of the VidraResource.
	resourceName = "bench"
	// applyTimeout bounds how long Vidra may take to apply every object.
	applyTimeout = 3 * time.Minute
)

// lab is a control plane with an operator and a floor on it.
type lab struct {
	env      *testenv.Env
	operator *testenv.Operator
	// binary is the executable of the operator.
	binary string
	// floor is the floor of heal, and floorConfig the kubeconfig of each floor's account.
	floor       *child
	floorConfig string
	// client and dynamic reach the API server as an administrator.
	client  client.WithWatch
	dynamic dynamic.Interface
	// kubernetes is the version of the API server.
	kubernetes string
}

// newLab starts a control plane and the operator, and makes the account of the floor. binary is
// the operator, or empty for that of the checkout.
func newLab(ctx context.Context, binary string) (*lab, error) {
	env, err := testenv.Start(ctx, testenv.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	l := &lab{env: env, binary: binary}
	for _, step := range []func(context.Context) error{l.connect, l.install, l.startOperator, l.prepareFloor} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

// newHealLab is newLab with the floor of heal, and with a VidraResource of n objects.
func newHealLab(ctx context.Context, binary string, n int) (*lab, error) {
	l, err := newLab(ctx, binary)
	if err != nil {
		return nil, err
	}
	if l.floor, err = startFloor(ctx, l.floorConfig, floorNamespace); err == nil {
		err = l.applyResource(ctx, n)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) connect(context.Context) error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if l.client, err = client.NewWithWatch(l.env.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if l.dynamic, err = dynamic.NewForConfig(l.env.Config); err != nil {
		return err
	}
	server, err := discovery.NewDiscoveryClientForConfig(l.env.Config)
	if err != nil {
		return err
	}
	version, err := server.ServerVersion()
	if err == nil {
		l.kubernetes = version.GitVersion
	}
	return err
}

// install builds the operator, unless a binary is given, and installs config/default.
func (l *lab) install(ctx context.Context) (err error) {
	if l.binary == "" {
		if l.binary, err = testenv.BuildOperator(ctx, os.Stderr, false); err != nil {
			return err
		}
	}
	return l.env.Install(ctx)
}

func (l *lab) startOperator(ctx context.Context) (err error) {
	l.operator, err = l.env.StartOperator(ctx, testenv.OperatorOptions{Binary: l.binary})
	return err
}

// prepareFloor makes a ServiceAccount that may do what the operator may do, and a kubeconfig
// of it.
func (l *lab) prepareFloor(ctx context.Context) (err error) {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: floorNamespace, Name: floorCommand}
	objects := []map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": floorNamespace}},
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": vidraNamespace}},
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{
			"name": account.Name, "namespace": account.Namespace,
		}},
		{
			"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRoleBinding",
			"metadata": map[string]any{"name": floorNamespace},
			"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "vidra-managed-kinds"},
			"subjects": []any{map[string]any{"kind": account.Kind, "namespace": account.Namespace, "name": account.Name}},
		},
	}
	var all []*unstructured.Unstructured
	for _, object := range objects {
		all = append(all, &unstructured.Unstructured{Object: object})
	}
	if err := testenv.Apply(ctx, l.env.Config, all); err != nil {
		return err
	}
	l.floorConfig, err = l.env.ServiceAccountKubeconfig(ctx, account.Namespace, account.Name)
	return err
}

// applyResource makes the VidraResource and waits until it is ready.
func (l *lab) applyResource(ctx context.Context, n int) error {
	vr := &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: resourceName},
		Spec: v1alpha1.VidraResourceSpec{
			Manifest: manifest(vidraNamespace, n),
		},
	}
	if err := l.client.Create(ctx, vr); err != nil {
		return err
	}
	var ready *metav1.Condition
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, applyTimeout, true, func(ctx context.Context) (bool, error) {
		if err := l.client.Get(ctx, client.ObjectKeyFromObject(vr), vr); err != nil {
			return false, err
		}
		ready = meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue && int(vr.Status.Objects) == n, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until VidraResource %s is ready: %w (%v); see %s", vr.Name, err, ready, l.operator.Log)
	}
	return nil
}

// close ends all of it.
func (l *lab) close() error {
	var errs []error
	if l.floor != nil {
		errs = append(errs, l.floor.stop())
	}
	return errors.Join(append(errs, l.env.Stop())...)
}
