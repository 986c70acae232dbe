package testenv

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const wait30 = 30 * time.Second

func namespace(t *testing.T, name string) *corev1.Namespace {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
	require.NoError(t, admin().Create(t.Context(), ns))
	return ns
}

func TestServerReportsItsVersion(t *testing.T) {
	if os.Getenv(assetsEnv) != "" {
		t.Skip("the control plane is not the one that we build")
	}
	v, err := discovery.NewDiscoveryClientForConfigOrDie(env.Config).ServerVersion()
	require.NoError(t, err)
	version, err := Version()
	require.NoError(t, err)
	require.Equal(t, version, v.GitVersion)
	require.Equal(t, minorOf(version), v.Major+"."+v.Minor)
}

func TestControllersRun(t *testing.T) {
	ns := namespace(t, "controllers").Name
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
	c := admin()
	require.EventuallyWithT(t, func(t *assert) {
		root := &corev1.ConfigMap{}
		require.NoError(t, c.Get(context.Background(), client.ObjectKey{Namespace: ns, Name: "kube-root-ca.crt"}, root))
		require.Equal(t, string(env.Config.CAData), root.Data["ca.crt"])
		require.NoError(t, c.Get(context.Background(), client.ObjectKey{Namespace: ns, Name: "default"}, &corev1.ServiceAccount{}))
	}, wait30, poll, "a new namespace gets the root certificate and a ServiceAccount")

	require.NoError(t, c.Create(t.Context(), d))
	pods := func(t require.TestingT) []corev1.Pod {
		list := &corev1.PodList{}
		require.NoError(t, c.List(context.Background(), list, client.InNamespace(ns)))
		return list.Items
	}
	require.EventuallyWithT(t, func(t *assert) {
		require.Len(t, pods(t), 1)
		require.Equal(t, "default", pods(t)[0].Spec.ServiceAccountName, "the admission plugin ServiceAccount is on")
	}, wait30, poll, "a Deployment gets a ReplicaSet, and that a Pod")

	require.NoError(t, c.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	require.EventuallyWithT(t, func(t *assert) {
		require.Empty(t, pods(t))
	}, wait30, poll, "garbage collection removes what the Deployment owned")
}

func TestDeletedNamespaceGoesAway(t *testing.T) {
	c, ns := admin(), namespace(t, "going")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "content"}}
	require.NoError(t, c.Create(t.Context(), cm))
	require.NoError(t, c.Delete(t.Context(), ns))
	require.EventuallyWithT(t, func(t *assert) {
		require.True(t, apierrors.IsNotFound(c.Get(context.Background(), client.ObjectKeyFromObject(ns), ns)))
	}, wait30, poll)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(cm), cm)))
}

func TestRBACIsOn(t *testing.T) {
	path, err := env.ServiceAccountKubeconfig(t.Context(), "default", "default")
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "no other user may read a token")
	account, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	user, err := env.UserConfig("stranger")
	require.NoError(t, err)

	tests := map[string]struct {
		reason string
		cfg    *rest.Config
		want   func(error) bool
	}{
		"administrator": {
			reason: "the administrator may do everything",
			cfg:    env.Config,
			want:   func(err error) bool { return err == nil },
		},
		"service account": {
			reason: "the token is accepted, and gives no right that no role gives",
			cfg:    account,
			want:   apierrors.IsForbidden,
		},
		"user": {
			reason: "the same for a client certificate",
			cfg:    user,
			want:   apierrors.IsForbidden,
		},
		"anonymous": {
			reason: "a client without credentials may not even know",
			cfg:    rest.AnonymousClientConfig(env.Config),
			want:   func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := client.New(tt.cfg, client.Options{Mapper: admin().RESTMapper()})
			require.NoError(t, err)
			err = c.List(t.Context(), &corev1.SecretList{})
			require.True(t, tt.want(err), "%s: %v", tt.reason, err)
		})
	}
}

func TestAdminKubeconfig(t *testing.T) {
	info, err := os.Stat(env.KubeconfigPath)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	cfg, err := clientcmd.BuildConfigFromFlags("", env.KubeconfigPath)
	require.NoError(t, err)
	c, err := client.New(cfg, client.Options{})
	require.NoError(t, err)
	require.NoError(t, c.List(t.Context(), &corev1.SecretList{}))
}

func TestAuditSince(t *testing.T) {
	user, err := env.UserConfig("audited")
	require.NoError(t, err)
	user.UserAgent = "audit-test"
	c, err := client.NewWithWatch(user, client.Options{Mapper: admin().RESTMapper()})
	require.NoError(t, err)

	before := env.AuditMark()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "audited"}}
	require.True(t, apierrors.IsForbidden(c.Create(t.Context(), cm)))
	require.True(t, apierrors.IsForbidden(c.Delete(t.Context(), cm)))
	_, err = c.Watch(t.Context(), &corev1.ConfigMapList{})
	require.True(t, apierrors.IsForbidden(err))

	events, err := env.AuditSince(before)
	require.NoError(t, err)
	var verbs []string
	for _, e := range events {
		if e.User != "audited" {
			continue
		}
		verbs = append(verbs, e.Verb)
		require.Equal(t, "configmaps", e.Resource)
		require.Equal(t, http.StatusForbidden, e.Code)
		require.Equal(t, "audit-test", e.UserAgent)
		require.WithinDuration(t, time.Now(), e.Time, time.Minute)
	}
	require.Equal(t, []string{"create", "delete", "watch"}, verbs, "each request counts once, in order")

	events, err = env.AuditSince(env.AuditMark())
	require.NoError(t, err)
	for _, e := range events {
		require.NotEqual(t, "audited", e.User, "what was before the mark does not count")
	}
}

func TestStopLeavesNothingBehind(t *testing.T) {
	e, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	pids, err := filepath.Glob(filepath.Join(e.Dir, "run", "*.pid"))
	require.NoError(t, err)
	require.Len(t, pids, 3, "three processes are on the leash")
	processes := readPIDs(t, pids)

	require.NoError(t, e.Stop())
	require.NoError(t, e.Stop(), "Stop is idempotent")
	require.NoDirExists(t, e.Dir)
	requireGone(t, processes)
}

func TestForgottenDeletionIsTouched(t *testing.T) {
	c, err := newClient(env.Config)
	require.NoError(t, err)
	crd := CRD("forgotten")
	crd.Finalizers = []string{"example.com/hold"}
	require.NoError(t, c.Create(t.Context(), crd))
	require.NoError(t, c.Delete(t.Context(), crd))
	require.EventuallyWithT(t, func(t *assert) { // as kube-apiserver leaves it
		require.NoError(t, c.Get(context.Background(), client.ObjectKeyFromObject(crd), crd))
		require.Equal(t, []string{"example.com/hold"}, crd.Finalizers, "kube-apiserver has done its part")
		for i, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Terminating {
				crd.Status.Conditions[i].Reason = "InstanceDeletionFailed"
			}
		}
		require.NoError(t, c.Status().Update(context.Background(), crd))
		require.True(t, deletionFailed(crd))
	}, wait30, poll)
	require.EventuallyWithT(t, func(t *assert) {
		require.NoError(t, c.Get(context.Background(), client.ObjectKeyFromObject(crd), crd))
		require.Contains(t, crd.Annotations, touchedAnnotation)
	}, wait30, poll)
	require.NoError(t, c.Patch(t.Context(), crd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// TestControlPlaneUsesOneCPU: each process of the control plane leaves the other CPUs to the tests.
func TestControlPlaneUsesOneCPU(t *testing.T) {
	c, err := rest.HTTPClientFor(env.Config)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env.Config.Host+"metrics", http.NoBody)
	require.NoError(t, err)
	answer, err := c.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // it was only read
	metrics, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(metrics), "\ngo_sched_gomaxprocs_threads 1\n")
	require.Contains(t, string(metrics), "\ngo_gc_gogc_percent 400\n")
}
