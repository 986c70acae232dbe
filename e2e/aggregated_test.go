package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// extension is an extension API server. It serves the kind of a CustomResourceDefinition in another group, by
// requests to the API server of the cluster: the semantics are those of a real one.
type extension struct {
	group string
	// stored is the CustomResourceDefinition of the objects.
	stored  *apiextensionsv1.CustomResourceDefinition
	service *unstructured.Unstructured
	// hidden are verbs that its discovery does not have.
	hidden []string
	// unlisted has it refuse to list its objects.
	unlisted atomic.Bool
	// invalid has it call each write to an object of the name "first" invalid, and name no field.
	invalid atomic.Bool
}

// startExtension starts an extension API server whose discovery lacks the hidden verbs, and registers it. It ends with the test.
func startExtension(t *testing.T, ns string, hidden ...string) *extension {
	t.Helper()
	e := &extension{stored: testenv.CRD("s" + unique(t)), hidden: hidden}
	e.group = "x" + strings.TrimPrefix(e.stored.Spec.Group, "s") // of the same length
	require.NoError(t, admin.Create(t.Context(), e.stored.DeepCopy()))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), e.stored.DeepCopy()) })

	name := "extension"
	chain, key, err := cert.GenerateSelfSignedCertKey(name+"."+ns+".svc", nil, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(chain, key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(e.handler(t))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	port, err := strconv.ParseInt(text, 10, 32)
	require.NoError(t, err)
	require.NoError(t, admin.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: int32(port)}},
		},
	}))
	e.service = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." + e.group},
		"spec": map[string]any{
			"group": e.group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
			"caBundle": base64.StdEncoding.EncodeToString(chain), "service": map[string]any{"namespace": ns, "name": name, "port": port},
		},
	}}
	e.register(t)
	return e
}

// register creates the APIService, and waits until the API server serves the kind.
func (e *extension) register(t *testing.T) {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), e.service.DeepCopy()))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), e.service.DeepCopy()) })
	await(t, func(c *assert.CollectT) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(e.group + "/v1")
		list.SetKind("ThingList")
		require.NoError(c, admin.List(t.Context(), list))
	})
}

// object returns an object of the manifest, as the API server stores it.
func (e *extension) object(ns, name string) *unstructured.Unstructured {
	thing := thingIn(e.stored, ns)
	thing.SetName(name)
	return thing
}

func (e *extension) manifest(name string) string {
	return "apiVersion: " + e.group + "/v1\nkind: Thing\nmetadata:\n  name: " + name + "\nspec:\n  color: red\n"
}

// handler passes requests on to the API server of the cluster, with the other group.
func (e *extension) handler(t *testing.T) http.Handler {
	t.Helper()
	transport, err := rest.TransportFor(env.Config)
	require.NoError(t, err)
	target, err := url.Parse(env.Config.Host)
	require.NoError(t, err)
	is, stored := []byte(e.group), []byte(e.stored.Spec.Group)
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.URL.Path = strings.ReplaceAll(r.In.URL.Path, e.group, e.stored.Spec.Group)
			r.Out.Header.Del("Accept-Encoding")
			if accepted := strings.Split(r.In.Header.Get("Accept"), ","); len(accepted) > 1 { // JSON alone, which has lines
				r.Out.Header.Set("Accept", accepted[len(accepted)-1])
			}
			if r.In.Body != nil {
				body, _ := io.ReadAll(r.In.Body) // a body that breaks off is refused
				r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, is, stored))), int64(len(body))
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if len(e.hidden) > 0 { // the body may be shorter
				r.Header.Del("Content-Length")
				r.ContentLength = -1
			}
			lines, body := bufio.NewReader(r.Body), r.Body
			out, in := io.Pipe()
			r.Body = struct {
				io.Reader
				io.Closer
			}{out, body}
			go func() {
				for {
					line, err := lines.ReadBytes('\n')
					for _, verb := range e.hidden {
						line = bytes.ReplaceAll(line, []byte(strconv.Quote(verb)+","), nil)
					}
					_, _ = in.Write(bytes.ReplaceAll(line, stored, is)) // the client may be gone
					if err != nil {
						_ = in.CloseWithError(err)
						return
					}
				}
			}()
			return nil
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/apis/") { // the OpenAPI of the cluster waits for the one of each extension
			http.NotFound(w, r)
			return
		}
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/things") && e.unlisted.Load() {
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/first") && e.invalid.Load() {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"not now","details":{"name":"first"}}`)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// TestInvalidWithoutAField has an extension API server call a change invalid without a field, as a store behind it may fail. Even where spec.force is true,
// the object stays: another value of which field would be accepted is unknown.
func TestInvalidWithoutAField(t *testing.T) {
	t.Parallel()
	needsOwnControlPlane(t, "it serves an API on this machine")
	ns := newNamespace(t)
	e := startExtension(t, ns)
	newVidraResource(t, ns, e.manifest("first"), forced)
	awaitReady(t, ns)
	first := e.object(ns, "first")
	uid := get(t, first).GetUID()
	e.invalid.Store(true)
	setManifest(t, ns, strings.ReplaceAll(e.manifest("first"), "red", "blue"))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "Thing "+ns+"/first", "not now")
	e.invalid.Store(false)
	changeSpec(t, ns, func(s *v1alpha1.VidraResourceSpec) { s.Manifest += "  size: 2\n" })
	awaitReady(t, ns)
	require.Equal(t, uid, get(t, first).GetUID())
}

// TestAggregatedKindGoes has an extension API server serve a kind whose objects two VidraResources have. While its APIService is missing,
// for longer than the time after which a kind counts as gone, the deletion of one VidraResource and the removal of an object of the
// other one wait, and no object is forgotten. When it is served again, both are finished.
func TestAggregatedKindGoes(t *testing.T) {
	t.Parallel()
	needsOwnControlPlane(t, "it serves an API on this machine")
	ns := newNamespace(t)
	e := startExtension(t, ns)
	deleted, pruned := ns+"-deleted", ns+"-pruned"
	newVidraResource(t, ns, e.manifest("first"), named(deleted))
	newVidraResource(t, ns, manifests(configMap("other", "hello"), e.manifest("second")), named(pruned))
	t.Cleanup(func() { // a failed test would wait for the kind
		for _, name := range []string{deleted, pruned} {
			_ = mergePatch(vidraResourceOf(name, ns, ""), `{"spec":{"deletionPolicy":"Orphan"}}`)
		}
	})
	awaitReady(t, deleted)
	v := awaitReady(t, pruned)
	require.True(t, entry(t, v, "Thing", "second").Aggregated)
	second := e.object(ns, "second")
	require.NoError(t, mergePatch(second, `{"spec":{"color":"blue"}}`))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, "red", get(c, second).Object["spec"].(map[string]any)["color"], "it is watched")
	})

	require.NoError(t, admin.Delete(t.Context(), e.service.DeepCopy()))
	awaitNotReady(t, pruned, v1alpha1.ReasonKindUnavailable, "Thing")
	require.NoError(t, deleteVidraResource(t.Context(), deleted))
	setManifest(t, pruned, configMap("other", "hello"))
	missing := "the APIService v1." + e.group + " of an extension API server is missing"
	awaitNotReady(t, pruned, v1alpha1.ReasonProgressing, "Thing "+ns+"/second", missing, "spec.deletionPolicy to Orphan")
	awaitNotReady(t, deleted, v1alpha1.ReasonProgressing, "first", missing)
	require.Len(t, getVidraResource(t, deleted).Status.ManagedResources, 1)
	require.Len(t, getVidraResource(t, pruned).Status.ManagedResources, 2)
	for _, name := range []string{"first", "second"} {
		require.Nil(t, get(t, e.object(ns, name)).GetDeletionTimestamp())
	}

	e.register(t)
	cluster.AwaitReadyFor(t, 3*patience, pruned)
	awaitGoneFor(t, 3*patience, second)
	awaitGoneFor(t, 3*patience, vidraResourceOf(deleted, ns, ""))
	awaitGoneFor(t, 3*patience, e.object(ns, "first"))
}

// TestNamespaceWithAnAggregatedKind removes a Namespace that holds an object of an extension API server which does not answer, and
// which has the annotation keep: the Namespace stays, and is released when that is known.
func TestNamespaceWithAnAggregatedKind(t *testing.T) {
	t.Parallel()
	needsOwnControlPlane(t, "it serves an API on this machine")
	ns := newNamespace(t)
	inner := ns + "-inner"
	e := startExtension(t, ns)
	newVidraResource(t, ns, manifests(configMap("fence", "hello"), namespaceOf(inner)))
	awaitReady(t, ns)
	kept := e.object(inner, "kept")
	kept.SetAnnotations(map[string]string{v1alpha1.KeepAnnotation: "true"})
	require.NoError(t, admin.Create(t.Context(), kept))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "extension"}}
	require.NoError(t, mergePatch(service, `{"spec":{"externalName":"nowhere.invalid"}}`))
	await(t, func(c *assert.CollectT) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(e.group + "/v1")
		list.SetKind("ThingList")
		require.Error(c, admin.List(t.Context(), list))
	})
	setManifest(t, ns, configMap("fence", "hello"))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "Namespace "+inner, "is not removed before all is known that it holds")
	require.NoError(t, mergePatch(service, `{"spec":{"externalName":"localhost"}}`))
	v := awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place", inner)
	require.Nil(t, get(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}}).GetDeletionTimestamp())
	require.False(t, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(kept), kept)))
	require.NoError(t, admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}}))
}

// TestNamespaceWithAKindThatIsNotEnumerable removes a Namespace where an extension API server has a kind that Kubernetes deletes with it, as a
// collection, and that cannot be listed: the Namespace stays, because it is not known what it holds. So do all Namespaces meanwhile: the test is
// not parallel.
func TestNamespaceWithAKindThatIsNotEnumerable(t *testing.T) {
	needsOwnControlPlane(t, "it serves an API on this machine")
	ns := newNamespace(t)
	inner := ns + "-inner"
	e := startExtension(t, ns, "list")
	e.unlisted.Store(true)
	await(t, func(c *assert.CollectT) { // as the API server gathers it
		served, err := kubernetes.NewForConfigOrDie(env.Config).Discovery().ServerPreferredNamespacedResources()
		require.NoError(c, err)
		var verbs metav1.Verbs
		for _, list := range served {
			if list.GroupVersion == e.group+"/v1" {
				verbs = list.APIResources[0].Verbs
			}
		}
		require.Contains(c, verbs, "deletecollection")
		require.NotContains(c, verbs, "list")
	})
	newVidraResource(t, ns, manifests(configMap("fence", "hello"), namespaceOf(inner)))
	awaitReady(t, ns)
	setManifest(t, ns, configMap("fence", "hello"))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "Namespace "+inner, "is not removed before all is known that it holds", "things."+e.group)
	require.Nil(t, get(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}}).GetDeletionTimestamp())
	changeSpec(t, ns, func(s *v1alpha1.VidraResourceSpec) { s.Prune = new(false) })
	awaitReady(t, ns)
	require.NoError(t, admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}}))
}
