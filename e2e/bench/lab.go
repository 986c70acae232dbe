package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// Where the objects of the sides live.
	floorNamespace = "bench-floor"
	vidraNamespace = "bench-vidra"
	// resourceName is the name of the VidraResource whose objects are edited.
	resourceName = "bench"
	// applyTimeout bounds how long Vidra may take to apply every object.
	applyTimeout = 3 * time.Minute
)

// setup is what a benchmark needs of a lab. The zero value is a control plane with an operator.
type setup struct {
	// bare is whether no operator runs.
	bare bool
	// args are added to those of the operator.
	args []string
}

// lab is a control plane with an operator, and accounts for what it is compared with.
type lab struct {
	env         *testenv.Env
	operator    *testenv.Operator
	setup       setup
	environment environment
	// binary is the executable of the operator.
	binary string
	// quiet is how long the operator must send nothing until it counts as done.
	quiet time.Duration
	// peer is whether Flux is measured, too.
	peer bool
	// pprof is where the operator serves its profiles, and profile where they are written.
	pprof   string
	profile profileOptions
	// kubeconfigs are those of the accounts of the floor and of the peer, by namespace.
	kubeconfigs map[string]string
	// client and dynamic reach the API server as an administrator.
	client  client.WithWatch
	dynamic dynamic.Interface
}

// newLab starts a control plane and the operator, and makes the accounts.
func newLab(ctx context.Context, o commonOptions, s setup) (*lab, error) {
	env, err := testenv.Start(ctx, testenv.Options{Out: os.Stderr, AllCPUs: true})
	if err != nil {
		return nil, err
	}
	l := &lab{env: env, setup: s, binary: o.operator, peer: o.peer, profile: o.profile, quiet: 3 * time.Second}
	steps := []func(context.Context) error{l.connect, l.install, l.prepareSides, func(ctx context.Context) error { return l.startOperator(ctx) }}
	if s.bare {
		steps = []func(context.Context) error{l.connect}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

func (l *lab) connect(ctx context.Context) (err error) {
	if l.client, err = testenv.Client(l.env.Config); err != nil {
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
	if err != nil {
		return err
	}
	l.environment = newEnvironment(ctx, version.GitVersion, l.binary)
	return nil
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

// startOperator starts the operator with arguments beside those of the setup.
func (l *lab) startOperator(ctx context.Context, args ...string) error {
	port, err := testenv.FreePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	l.pprof = "http://" + address
	args = append(append([]string{"--pprof-bind-address=" + address}, l.setup.args...), args...)
	l.operator, err = l.env.StartOperator(ctx, testenv.OperatorOptions{Binary: l.binary, Args: args})
	return err
}

// accounts are the ServiceAccounts of the sides that are no operators, by their namespaces.
var accounts = map[string]string{floorNamespace: floorCommand, fluxNamespace: fluxCommand}

// prepareSides makes the namespaces of the sides, and ServiceAccounts that may do what the
// operator may do, each with a kubeconfig.
func (l *lab) prepareSides(ctx context.Context) error {
	if err := applyObject(ctx, l.env.Config, "v1", "Namespace", "", vidraNamespace, nil); err != nil {
		return err
	}
	l.kubeconfigs = map[string]string{}
	for namespace, account := range accounts {
		subject := map[string]any{"kind": rbacv1.ServiceAccountKind, "namespace": namespace, "name": account}
		err := errors.Join(
			applyObject(ctx, l.env.Config, "v1", "Namespace", "", namespace, nil),
			applyObject(ctx, l.env.Config, "v1", "ServiceAccount", namespace, account, nil),
			applyObject(ctx, l.env.Config, rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding", "", namespace, map[string]any{
				"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "vidra-managed-kinds"},
				"subjects": []any{subject},
			}))
		if err != nil {
			return err
		}
		if l.kubeconfigs[namespace], err = l.env.ServiceAccountKubeconfig(ctx, namespace, account); err != nil {
			return err
		}
	}
	return nil
}

// applyObject applies an object, with fields beside its metadata, as an administrator.
func applyObject(ctx context.Context, config *rest.Config, apiVersion, kind, namespace, name string, fields map[string]any) error {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(object.Object, fields)
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return testenv.Apply(ctx, config, []*unstructured.Unstructured{object})
}

// applyResource makes a VidraResource and waits until it is ready with its n objects.
func (l *lab) applyResource(ctx context.Context, name, manifest string, n int) error {
	vr := &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.VidraResourceSpec{Manifest: manifest},
	}
	return l.awaitResource(ctx, vr, n)
}

// awaitResource creates a VidraResource and waits until it is ready with its n objects.
func (l *lab) awaitResource(ctx context.Context, vr *v1alpha1.VidraResource, n int) error {
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
func (l *lab) close() error { return l.env.Stop() }
