package sources

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// fluxController is the source-controller of Flux, with its CustomResourceDefinitions.
type fluxController struct {
	binary  string
	flags   []string
	process *testenv.FluxProcess
}

// fluxBinary returns the program of a controller of Flux. Without it, the test is skipped.
func fluxBinary(t *testing.T, f testenv.FluxController) string {
	t.Helper()
	binary, err := f.Path(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	if binary == "" {
		text := fmt.Sprintf("%s is skipped: the %s is not built. `make test-sources` builds it once and runs the test", t.Name(), f)
		fmt.Fprintln(os.Stderr, text) // also without -v
		t.Skip(text)
	}
	return binary
}

// installCRDs installs the CustomResourceDefinitions of a controller of Flux for a test.
func installCRDs(t *testing.T, f testenv.FluxController) {
	t.Helper()
	crds, err := f.CRDs(t.Context())
	require.NoError(t, err)
	installed := envtest.CRDInstallOptions{Paths: []string{crds}, ErrorIfPathMissing: true}
	all, err := envtest.InstallCRDs(cluster.Config, installed)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, envtest.UninstallCRDs(cluster.Config, installed))
		for _, crd := range all {
			cluster.AwaitGoneFor(t, patience, crd)
		}
	})
}

// removeStandIns removes the CustomResourceDefinitions of the stand-in.
func removeStandIns(t *testing.T, all ...*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, crd := range all {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), crd.DeepCopy())))
		cluster.AwaitGoneFor(t, patience, crd.DeepCopy())
	}
}

// startFlux starts the source-controller for a test. Without the program it skips the test.
func startFlux(t *testing.T) *fluxController {
	t.Helper()
	binary := fluxBinary(t, testenv.SourceController)
	for kind := range testenv.FluxPlurals {
		removeStandIns(t, testenv.FluxCRD(kind))
	}
	installCRDs(t, testenv.SourceController)
	listener, err := net.Listen("tcp", net.JoinHostPort(suite.ListenAddress(t), "0")) // a free port, which stays the same
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	address := listener.Addr().String()
	f := &fluxController{binary: binary, flags: []string{"--storage-path=" + t.TempDir(), "--storage-addr=" + address, "--storage-adv-addr=" + address}}
	f.start(t)
	t.Cleanup(func() { require.NoError(t, f.process.Kill()) })
	return f
}

func (f *fluxController) start(t *testing.T) {
	t.Helper()
	var err error
	f.process, err = cluster.StartFlux(bg, testenv.SourceController, f.binary, f.flags...)
	require.NoError(t, err)
}

// create creates a source with a spec, and deletes it at the end of the test, while the controller runs, which has a finalizer on it.
func (f *fluxController) create(t *testing.T, kind, namespace string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	u.SetNamespace(namespace)
	u.SetName("app")
	require.NoError(t, admin.Create(t.Context(), u, client.FieldValidation("Strict")))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(bg, u)))
		suite.AwaitFor(t, patience, func(c *assertT) {
			require.True(c, apierrors.IsNotFound(admin.Get(bg, client.ObjectKeyFromObject(u), u.DeepCopy())))
		})
	})
	return u
}

// refresh requests that the controller reads a source now, as flux reconcile source does.
func refresh(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	require.NoError(t, cluster.MergePatch(u.DeepCopy(), `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, time.Now().Format(time.RFC3339Nano)))
}

// TestSourceController: manifests come from a Git server, an OCI registry and a bucket by the source-controller of Flux. Each revision is applied, and
// edits are reverted to the last one while the controller is down, also after a crash of the operator.
func TestSourceController(t *testing.T) {
	f := startFlux(t)
	git, oci, s3 := newGitServer(t), newOCIServer(t), newS3Server(t)
	for kind, tt := range map[string]struct {
		spec map[string]any
		// publish makes files the content, and returns a part of its revision.
		publish func(t *testing.T, files map[string]string) string
	}{
		"GitRepository": {
			map[string]any{"url": git.url, "ref": map[string]any{"branch": "main"}, "interval": "1h"}, git.commit,
		},
		"OCIRepository": {
			map[string]any{"url": "oci://" + oci.host + "/app", "ref": map[string]any{"tag": "latest"}, "interval": "1h", "insecure": true}, oci.push,
		},
		"Bucket": {
			map[string]any{"endpoint": s3.host, "bucketName": "manifests", "provider": "generic", "region": "us-east-1", "interval": "1h", "insecure": true},
			func(_ *testing.T, files map[string]string) string { s3.set(files); return "sha256:" },
		},
	} {
		t.Run(kind, func(t *testing.T) {
			ns := cluster.NewNamespace(t)
			revision := tt.publish(t, map[string]string{
				"deploy/one.yaml": suite.Greeting("one", "hello"), "deploy/two.yaml": suite.Greeting("two", "hello"), "deploy/kustomization.yaml": "resources: [one.yaml, two.yaml]\n",
			})
			source := f.create(t, kind, ns, tt.spec)
			cluster.NewVidraResource(t, ns, "", from(kind, "app", "./deploy"))
			v := cluster.AwaitReadyFor(t, 2*patience, ns)
			require.Contains(t, v.Status.Source[0].Revision, revision)
			require.Len(t, v.Status.ManagedResources, 2)

			revision = tt.publish(t, map[string]string{"deploy/one.yaml": suite.Greeting("one", "second"), "deploy/kustomization.yaml": "resources: [one.yaml]\n"})
			refresh(t, source)
			awaitGreeting(t, ns, "one", "second")
			suite.AwaitFor(t, patience, func(c *assertT) {
				require.Empty(c, greeting(c, ns, "two"))
				require.Contains(c, cluster.GetVidraResource(c, ns).Status.Source[0].Revision, revision)
			})

			// Without the controller, and without its server.
			require.NoError(t, f.process.Kill())
			edit(t, ns, "one")
			awaitGreeting(t, ns, "one", "second")
			restart(t, func() { edit(t, ns, "one") })
			awaitGreeting(t, ns, "one", "second")
			tt.publish(t, map[string]string{"deploy/one.yaml": suite.Greeting("one", "third"), "deploy/kustomization.yaml": "resources: [one.yaml]\n"})
			f.start(t)
			refresh(t, source)
			awaitGreeting(t, ns, "one", "third")
			cluster.AwaitReadyFor(t, 2*patience, ns)
		})
	}
	t.Run("ExternalArtifact", func(t *testing.T) {
		ns := cluster.NewNamespace(t)
		p := newProducer(t)
		source := f.create(t, "ExternalArtifact", ns, map[string]any{})
		p.publish(t, source, "v1", map[string]string{"a.yaml": suite.Greeting("one", "hello")})
		cluster.NewVidraResource(t, ns, "", from("ExternalArtifact", "app", ""))
		cluster.AwaitReadyFor(t, patience, ns)
		awaitGreeting(t, ns, "one", "hello")
	})
}

// TestSourceControllerSoak: each commit is applied while the operator and the source-controller crash. No object of a later commit is removed, none
// of an earlier one is left, and none is created twice.
func TestSourceControllerSoak(t *testing.T) {
	if !suite.Long() {
		t.Skip("a test of make test-long")
	}
	f := startFlux(t)
	git := newGitServer(t)
	ns := cluster.NewNamespace(t)
	value := func(i int) string { return fmt.Sprint("v", i) }
	commit := func(i int) string {
		files := map[string]string{"deploy/same.yaml": suite.Greeting("same", value(i))}
		for n := range 5 { // each object is in five commits that follow each other
			name := fmt.Sprintf("c%d", (i+n)/5*5+n)
			files["deploy/"+name+".yaml"] = suite.Greeting(name, value(i))
		}
		return git.commit(t, files)
	}
	commit(0)
	source := f.create(t, "GitRepository", ns, map[string]any{"url": git.url, "ref": map[string]any{"branch": "main"}, "interval": "1h"})
	cluster.NewVidraResource(t, ns, "", from("GitRepository", "app", "deploy"))
	cluster.AwaitReadyFor(t, 2*patience, ns)
	same := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "same"}}
	first := cluster.Get(t, same).GetUID()
	for i := 1; i <= 50; i++ {
		hash := commit(i)
		refresh(t, source)
		switch i % 4 {
		case 1:
			restart(t, func() {})
		case 3:
			require.NoError(t, f.process.Kill())
			f.start(t)
			refresh(t, source)
		}
		if i%5 == 0 { // the commits between may be left out
			awaitGreeting(t, ns, "same", value(i))
			suite.AwaitFor(t, 2*patience, func(c *assertT) {
				v := cluster.GetVidraResource(c, ns)
				require.True(c, strings.HasSuffix(v.Status.Source[0].Revision, hash), v.Status.Source[0].Revision)
				require.Len(c, v.Status.ManagedResources, 6)
				live := &corev1.ConfigMapList{}
				require.NoError(c, admin.List(bg, live, client.InNamespace(ns), client.MatchingLabels{"managed-by": "vidra"}))
				require.Len(c, live.Items, 6)
				for _, cm := range live.Items {
					require.Equal(c, value(i), cm.Data["greeting"], cm.Name)
				}
			})
		}
	}
	require.Equal(t, first, cluster.Get(t, same).GetUID(), "an object of all commits is never created again")
}
