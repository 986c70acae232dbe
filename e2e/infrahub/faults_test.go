package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var cleanup = context.Background()

// restartOperator ends the operator as a crash does, and starts it again.
func restartOperator(t *testing.T, flags ...string) {
	t.Helper()
	suite.Kill(t, operator)
	require.NoError(t, launch(context.Background(), flags...))
}

// TestUnusualAnswers has a row for each answer that is none: the condition and the Event have the reason and advice, and nothing is
// deleted or changed. The sync recovers afterwards.
func TestUnusualAnswers(t *testing.T) {
	t.Parallel()
	other := standin.New(standin.Options{}) // receives what is redirected
	elsewhere := suite.Serve(t, other)
	header := func(name, value string) http.Header { return http.Header{name: {value}} }
	empty := `{"data":{"CoreArtifact":{"edges":[]}}}`
	cases := map[string]struct {
		why, reason, message string
		answer               func(w http.ResponseWriter, r *http.Request) bool
	}{
		"401":           {"the token is refused, and so is that of a new login", v1alpha1.SyncReasonUnauthorized, "username and password", always("/api/query", 401, nil, empty)},
		"401Login":      {"the login is refused", v1alpha1.SyncReasonUnauthorized, "username and password", always("/api", 401, nil, empty)},
		"403":           {"the account may not run the query", v1alpha1.SyncReasonForbidden, "right to run the query", always("/api/query", 403, nil, empty)},
		"405":           {"neither POST nor GET is accepted", v1alpha1.SyncReasonQueryFailed, "405 Method Not Allowed", always("/api/query", 405, nil, empty)},
		"404":           {"the query does not exist", v1alpha1.SyncReasonNotFound, "the query exists", always("/api/query", 404, nil, `{"errors":[{"message":"Unable to find the query"}]}`)},
		"429":           {"the server is busy", v1alpha1.SyncReasonRateLimited, "longer spec.interval", always("/api/query", 429, header("Retry-After", "1"), empty)},
		"500":           {"the server is broken", v1alpha1.SyncReasonServerError, "log of the Infrahub server", always("/api/query", 500, nil, empty)},
		"503":           {"the server starts", v1alpha1.SyncReasonServerError, "503 Service Unavailable", always("/api", 503, nil, "<html>")},
		"302":           {"a redirect is not followed", v1alpha1.SyncReasonRedirected, "redirects to " + elsewhere.URL, always("/api/query", 302, header("Location", elsewhere.URL+"/api/query/ArtifactIDs"), "")},
		"307":           {"nor is one that keeps the method", v1alpha1.SyncReasonRedirected, "redirects are not followed", always("/api/auth", 307, header("Location", elsewhere.URL+"/api/auth/login"), "")},
		"204":           {"there is no answer", v1alpha1.SyncReasonInvalidAnswer, "204 No Content", always("/api/query", 204, nil, "")},
		"HTML":          {"a proxy answers", v1alpha1.SyncReasonInvalidAnswer, "HTML page", always("/api/query", 200, nil, "<!DOCTYPE html><html><body>Sign in</body></html>")},
		"Half":          {"the answer is cut", v1alpha1.SyncReasonInvalidAnswer, "ends early", always("/api/query", 200, nil, empty[:20])},
		"Length":        {"the connection is cut", v1alpha1.SyncReasonInvalidAnswer, "ends early", always("/api/query", 200, header("Content-Length", "5000"), empty)},
		"NotJSON":       {"the answer is no JSON", v1alpha1.SyncReasonInvalidAnswer, "no JSON of an Infrahub server", always("/api/query", 200, nil, "hello: [world")},
		"OtherJSON":     {"it is other JSON", v1alpha1.SyncReasonInvalidAnswer, "no data.CoreArtifact.edges", always("/api/query", 200, nil, `{"data":{"CoreNode":{"edges":[]}}}`)},
		"NullEdges":     {"null is no empty list", v1alpha1.SyncReasonInvalidAnswer, "no data.CoreArtifact.edges", always("/api/query", 200, nil, `{"data":{"CoreArtifact":{"edges":null}}}`)},
		"NullNode":      {"a node is missing", v1alpha1.SyncReasonInvalidAnswer, "has no id", always("/api/query", 200, nil, `{"data":{"CoreArtifact":{"edges":[{"node":null}]}}}`)},
		"GraphQLErrors": {"data beside errors is not complete", v1alpha1.SyncReasonQueryFailed, "Cannot query field", always("/api/query", 200, nil, `{"data":{"CoreArtifact":{"edges":[]}},"errors":[{"message":"Cannot query field"}]}`)},
		"Pages":         {"the pages are not complete", v1alpha1.SyncReasonInvalidAnswer, "0 of 7 artifacts", always("/api/query", 200, nil, `{"data":{"CoreArtifact":{"count":7,"edges":[]}}}`)},
		"Large":         {"the answer is too large", v1alpha1.SyncReasonInvalidAnswer, "which is the limit", always("/api/query", 200, nil, strings.Repeat(" ", 17<<20))},
		"NoToken":       {"the login has no token", v1alpha1.SyncReasonInvalidAnswer, "no access_token", always("/api/auth", 200, nil, `{}`)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, standin.Options{})
			l.credentials(nil)
			l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"))
			l.sync()
			before := l.awaitGreeting("a", "hello")
			l.await(v1alpha1.SyncReasonSynced)
			l.Instead(tc.answer)
			l.Revoke()
			l.request()
			is := l.await(tc.reason, tc.message)
			require.Equal(t, v1alpha1.SyncFailed, is.Status.SyncState, tc.why)
			require.NotEmpty(t, is.Status.LastError)
			cluster.AwaitEvent(t, is, corev1.EventTypeWarning, tc.reason, "Query", tc.message)
			l.requireResources(t, "a", "b")
			require.Equal(t, before.GetUID(), cluster.Get(t, before).GetUID())
			require.Len(t, is.Status.Checksums, 2, "what is applied is applied")
			l.Instead(nil)
			l.Set(l.artifact("a", "goodbye"))
			l.awaitGreeting("a", "goodbye") // without a request
			l.await(v1alpha1.SyncReasonSynced)
			cluster.AwaitEvent(t, is, corev1.EventTypeNormal, v1alpha1.SyncReasonSynced, "Write", "succeeds again")
		})
	}
	t.Cleanup(func() { require.Empty(t, other.Requests("/"), "no credentials go to another server") })
}

// TestUnappliedArtifacts has a row for each artifact that is not applied. Its VidraResource stays, the others are applied, and removals wait.
func TestUnappliedArtifacts(t *testing.T) {
	t.Parallel()
	content := suite.Greeting("a", "goodbye")
	cases := map[string]struct {
		why, reason, message string
		change               func(*standin.Artifact)
	}{
		"Pending":     {"it is not ready", v1alpha1.ArtifactNotReady, "is Pending in Infrahub", func(a *standin.Artifact) { a.Status = "Pending" }},
		"Error":       {"it failed", v1alpha1.ArtifactNotReady, "is Error in Infrahub", func(a *standin.Artifact) { a.Status = "Error" }},
		"Text":        {"it is text", v1alpha1.ArtifactUnsupported, "content type text/plain", func(a *standin.Artifact) { a.ContentType = "text/plain" }},
		"Image":       {"it is an image", v1alpha1.ArtifactUnsupported, "content type image/svg+xml", func(a *standin.Artifact) { a.ContentType = "image/svg+xml" }},
		"NotYAML":     {"it is no YAML", v1alpha1.ArtifactInvalid, "is no manifest", func(a *standin.Artifact) { a.Content = "a: [" }},
		"NoObject":    {"it has no objects", v1alpha1.ArtifactInvalid, "holds no object", func(a *standin.Artifact) { a.Content = "# nothing\n" }},
		"Scalar":      {"it is no object", v1alpha1.ArtifactInvalid, "is no manifest", func(a *standin.Artifact) { a.Content = "hello" }},
		"HTML":        {"it is a page", v1alpha1.ArtifactUnavailable, "HTML page", func(a *standin.Artifact) { a.Content = "<html></html>" }},
		"Checksum":    {"the content is another one", v1alpha1.ArtifactUnavailable, "checksum", func(a *standin.Artifact) { a.Checksum = strings.Repeat("0", 32) }},
		"Large":       {"it is too large", v1alpha1.ArtifactInvalid, "split it into several artifacts", func(a *standin.Artifact) { a.Content += "#" + strings.Repeat("x", 2<<20) }},
		"Unprintable": {"the message has no value of the artifact", v1alpha1.ArtifactInvalid, "is no manifest", func(a *standin.Artifact) { a.Content = secretManifest + "  b: [sesame-4711" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, standin.Options{})
			l.credentials(nil)
			l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"), l.artifact("c", "hello"))
			l.sync()
			l.await(v1alpha1.SyncReasonSynced)
			l.awaitGreeting("a", "hello")
			bad := l.artifact("a", "goodbye")
			bad.Content = content
			tc.change(&bad)
			l.Set(bad, l.artifact("b", "goodbye"))
			l.Remove(l.id("c"))
			l.request()
			is := l.await(v1alpha1.SyncReasonArtifactsFailed, tc.message)
			require.Len(t, is.Status.Problems, 1, tc.why)
			require.Equal(t, tc.reason, is.Status.Problems[0].Reason, tc.why)
			require.Equal(t, l.id("a"), is.Status.Problems[0].ID)
			require.NotContains(t, fmt.Sprint(is.Status), "sesame")
			l.awaitGreeting("b", "goodbye")
			l.awaitGreeting("a", "hello")
			l.requireResources(t, "a", "b", "c")
			require.EqualValues(t, 1, is.Status.PendingRemovals.Count, "c may have moved into a")
			if tc.reason == v1alpha1.ArtifactInvalid {
				l.Reset()
				l.request()
				l.requireRequests(0, 1, 0) // what it holds is known
				l.await(v1alpha1.SyncReasonArtifactsFailed, tc.message)
			}
			l.Set(l.artifact("a", "goodbye"))
			l.request()
			l.awaitGreeting("a", "goodbye")
			cluster.AwaitGone(t, configMap(l.ns, "c"))
		})
	}
}

// TestFaultsOfArtifacts: the server fails to send the content of a few artifacts. The others are applied, and removals wait. Beyond a few, the server fails.
func TestFaultsOfArtifacts(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"), l.artifact("c", "hello"))
	l.sync()
	before := l.awaitGreeting("a", "hello")
	l.await(v1alpha1.SyncReasonSynced)
	l.Remove(l.id("c"))
	for _, tt := range []struct {
		message string
		fail    func(w http.ResponseWriter)
	}{
		{"answer 500", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }},
		{"failed", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }}, // the connection ends
	} {
		l.Instead(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, l.id("a")) {
				return false
			}
			tt.fail(w)
			return true
		})
		l.Set(l.artifact("a", tt.message), l.artifact("b", tt.message))
		l.request()
		is := l.await(v1alpha1.SyncReasonArtifactsFailed, v1alpha1.ArtifactUnavailable, tt.message)
		require.Len(t, is.Status.Problems, 1)
		l.awaitGreeting("b", tt.message)
		require.Equal(t, before.GetResourceVersion(), cluster.Get(t, before).GetResourceVersion())
		l.requireResources(t, "a", "b", "c")
	}

	l.Instead(always("/api/storage", http.StatusInternalServerError, nil, ""))
	for i := range 9 {
		l.Set(l.artifact(fmt.Sprint("new", i), "hello"))
	}
	l.request()
	l.await(v1alpha1.SyncReasonServerError, "log of the Infrahub server")
	l.requireResources(t, "a", "b", "c")
	l.Instead(nil)
	l.awaitGreeting("a", "failed") // without a request
	cluster.AwaitGone(t, configMap(l.ns, "c"))
}

// TestListedTwice: an artifact that is listed twice with other content, or with another name, is not applied, and is not deleted.
func TestListedTwice(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"))
	l.sync()
	l.awaitGreeting("a", "hello")
	l.await(v1alpha1.SyncReasonSynced)
	node := func(name, checksum, of string) string {
		return fmt.Sprintf(`{"node":{"id":%q,"storage_id":{"id":"x"},"checksum":{"value":%q},"name":{"value":%q}}}`, l.id(name), checksum, of)
	}
	for listed, message := range map[string]string{
		node("a", "1", artifactName) + "," + node("a", "2", artifactName) + "," + node("b", "1", "Other"): "twice, with different content",
		node("a", "1", "Other") + "," + node("b", "1", "Other"):                                           "must select by name__values",
	} {
		l.Instead(always("/api/query", 200, nil, `{"data":{"CoreArtifact":{"edges":[`+listed+`]}}}`))
		l.request()
		l.await(v1alpha1.SyncReasonArtifactsFailed, message)
		l.requireResources(t, "a", "b")
	}
}

// TestFaultsOfTheNetwork has the server behind the fault proxy: away, silent, cut off in the content.
func TestFaultsOfTheNetwork(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	proxy, err := faultproxy.Start(&rest.Config{Host: l.url})
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	to, err := url.Parse(proxy.Config().Host)
	require.NoError(t, err)
	l.host = to.Hostname()
	l.credentials(map[string]string{"username": "admin", "password": "infrahub"})
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"))
	l.sync(func(is *v1alpha1.InfrahubSync) { is.Spec.Source.InfrahubAPIURL = proxy.Config().Host })
	l.await(v1alpha1.SyncReasonUnreachable, "add the CA as the key ca.crt")
	secret := &corev1.Secret{ObjectMeta: configMap(l.ns, "infrahub-credentials").ObjectMeta}
	encoded, err := json.Marshal(map[string]any{"stringData": map[string]string{"ca.crt": string(proxy.Config().CAData)}})
	require.NoError(t, err)
	require.NoError(t, cluster.MergePatch(secret, "%s", encoded))
	l.await(v1alpha1.SyncReasonSynced)
	l.awaitGreeting("a", "hello")

	proxy.Down()
	l.request()
	l.await(v1alpha1.SyncReasonUnreachable, "check spec.source.infrahubAPIURL")
	l.requireResources(t, "a", "b")
	require.NoError(t, proxy.Up())
	l.await(v1alpha1.SyncReasonSynced)

	for reason, fault := range map[string]faultproxy.Fault{
		v1alpha1.SyncReasonInvalidAnswer: faultproxy.CutAfter(20),
		v1alpha1.SyncReasonServerError:   faultproxy.Status(apierrors.NewInternalError(assert.AnError)),
	} {
		rule := proxy.Inject(faultproxy.Match{}, fault)
		l.request()
		l.await(reason)
		rule.Remove()
		l.requireResources(t, "a", "b")
		l.await(v1alpha1.SyncReasonSynced)
	}
}

// TestRetryAfter: no request comes before the time that the server asks for, also if one is requested.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const wait = 5 * time.Second // the first attempt after a failure would come after 2
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	l.sync()
	l.awaitGreeting("a", "hello")
	l.Reset()
	l.Instead(always("/api/query", http.StatusTooManyRequests, http.Header{"Retry-After": {"5"}}, ""))
	l.request()
	l.await(v1alpha1.SyncReasonRateLimited, "longer spec.interval")
	l.Instead(nil)
	l.request()
	l.await(v1alpha1.SyncReasonSynced)
	sent := l.Requests("/api/query/")
	require.GreaterOrEqual(t, len(sent), 2)
	require.GreaterOrEqual(t, sent[1].Time.Sub(sent[0].Time), wait)
}

// TestRetryAfterOfAFormerServer: an InfrahubSync whose spec names another server, or that is suspended, waits for none that asked for an hour.
func TestRetryAfterOfAFormerServer(t *testing.T) {
	t.Parallel()
	l, other := newLab(t, standin.Options{}), newLab(t, standin.Options{})
	l.credentials(nil)
	other.credentials(nil)
	other.Set(other.artifact("a", "hello"))
	l.Instead(always("/api/query", http.StatusTooManyRequests, http.Header{"Retry-After": {"3600"}}, ""))
	is := l.sync()
	l.await(v1alpha1.SyncReasonRateLimited)
	require.NoError(t, cluster.MergePatch(is, `{"spec":{"suspend":true}}`))
	l.await(v1alpha1.SyncReasonSuspended)
	require.NoError(t, cluster.MergePatch(is, `{"spec":{"suspend":false,"source":{"infrahubAPIURL":%q}}}`, other.url))
	l.await(v1alpha1.SyncReasonSynced)
	require.Len(t, l.Requests("/api/query/"), 1)
}

// TestRemovals has the rules of deletions: an empty answer, more than half, a confirmation of exactly these, and prune: Confirm.
func TestRemovals(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"), l.artifact("c", "hello"), l.artifact("d", "hello"))
	// It has the destination of the InfrahubSync, and is none of its artifacts: the first operator deleted it.
	foreign := cluster.NewVidraResource(t, l.ns, suite.Greeting("foreign", "hello"), suite.Named(l.ns+"-foreign"))
	l.sync()
	l.await(v1alpha1.SyncReasonSynced)
	l.awaitGreeting("a", "hello")
	l.Remove(l.id("b"), l.id("c"), l.id("d"))
	l.request()
	is := l.await(v1alpha1.SyncReasonConfirmationRequired, "more than half", "kubectl annotate infrahubsync "+l.ns)
	require.Equal(t, v1alpha1.SyncStale, is.Status.SyncState)
	require.EqualValues(t, 3, is.Status.PendingRemovals.Count)
	cluster.AwaitEvent(t, is, corev1.EventTypeWarning, v1alpha1.SyncReasonConfirmationRequired, "Query", "more than half")
	three := is.Status.PendingRemovals.Confirmation

	// The server lists them again before the confirmation comes, which is for no later removal.
	l.Set(l.artifact("b", "hello"), l.artifact("c", "hello"), l.artifact("d", "hello"))
	l.request()
	l.await(v1alpha1.SyncReasonSynced)
	l.confirm(three)
	l.Remove(l.id("b"), l.id("c"), l.id("d"))
	l.request()
	is = l.await(v1alpha1.SyncReasonConfirmationRequired, "more than half")
	l.requireResources(t, "a", "b", "c", "d")
	three = is.Status.PendingRemovals.Confirmation

	l.Remove(l.id("a"))
	l.confirm(three) // which is not for all four
	l.await(v1alpha1.SyncReasonConfirmationRequired, "no artifact any more")
	l.requireResources(t, "a", "b", "c", "d")

	l.Set(l.artifact("a", "hello"))
	l.request()
	l.awaitResources("a")
	cluster.AwaitGone(t, configMap(l.ns, "d"))
	l.await(v1alpha1.SyncReasonSynced)
	require.Nil(t, l.get(t).Status.PendingRemovals)

	l.Set(l.artifact("b", "hello"), l.artifact("c", "hello"))
	require.NoError(t, cluster.MergePatch(l.get(t), `{"spec":{"prune":"Confirm"}}`))
	l.request()
	l.awaitResources("a", "b", "c") // when the former ones are gone
	l.Remove(l.id("c"))
	l.request()
	is = l.await(v1alpha1.SyncReasonConfirmationRequired, "spec.prune is Confirm")
	l.requireResources(t, "a", "b", "c")
	l.confirm(is.Status.PendingRemovals.Confirmation)
	cluster.AwaitGone(t, configMap(l.ns, "c"))

	require.Equal(t, foreign.UID, cluster.GetVidraResource(t, foreign.Name).UID)
}

// TestCARotation: a server with a certificate of a new CA is not trusted until the Secret has that, and the Secret is read again at once then.
func TestCARotation(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	certificates, cas := [2]tls.Certificate{}, [2][]byte{}
	for i := range certificates {
		certificates[i], cas[i] = selfSigned(t, l.host)
	}
	var current atomic.Int32
	listener, err := net.Listen("tcp", l.host+":0")
	require.NoError(t, err)
	server := &http.Server{Handler: l.Server, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificates[current.Load()], nil },
	}}
	server.SetKeepAlivesEnabled(false) // each request sees the certificate of now
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	l.url = "https://" + listener.Addr().String()

	secret := l.credentials(map[string]string{"username": "admin", "password": "infrahub", "ca.crt": string(cas[0])})
	l.Set(l.artifact("a", "hello"))
	l.sync()
	l.awaitGreeting("a", "hello")
	l.await(v1alpha1.SyncReasonSynced)
	current.Store(1)
	l.request()
	l.await(v1alpha1.SyncReasonUnreachable, "add the CA as the key ca.crt")
	l.requireResources(t, "a")
	encoded, err := json.Marshal(map[string]any{"stringData": map[string]string{"ca.crt": string(cas[1])}})
	require.NoError(t, err)
	require.NoError(t, cluster.MergePatch(secret, "%s", encoded))
	l.Set(l.artifact("a", "goodbye"))
	l.awaitGreeting("a", "goodbye")
	l.await(v1alpha1.SyncReasonSynced)
}

// selfSigned makes a certificate of a host, with its CA.
func selfSigned(t *testing.T, host string) (certificate tls.Certificate, ca []byte) {
	t.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	require.NoError(t, err)
	certificate, err = tls.X509KeyPair(chain, key)
	require.NoError(t, err)
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[len(certificate.Certificate)-1]})
}
