package ui

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestGuard requests the page as other programs and pages of other origins may.
func TestGuard(t *testing.T) {
	shop(t)
	p := start(t, kubeconfig)
	root := p.URL[:strings.LastIndex(strings.TrimSuffix(p.URL, "/"), "/")]
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, test := range map[string]struct {
		reason string
		url    string
		change func(*http.Request)
		code   int
	}{
		"own":                 {reason: "the address that was printed", url: p.URL, code: http.StatusOK},
		"own origin":          {reason: "a request of the page itself", url: p.URL, change: header("Origin", root), code: http.StatusOK},
		"no token":            {reason: "the port alone gives nothing away", url: root + "/", code: http.StatusForbidden},
		"wrong token":         {reason: "a guess gives nothing away", url: root + "/AAAAAAAAAAAAAAAAAAAAAAAAAA/", code: http.StatusForbidden},
		"begin of a token":    {reason: "a part of the token is none", url: p.URL[:len(p.URL)-2] + "/", code: http.StatusForbidden},
		"no token for a file": {reason: "files need the token, too", url: root + "/static/page.js", code: http.StatusForbidden},
		"no token for events": {reason: "events need the token, too", url: root + "/live", code: http.StatusForbidden},
		"other host":          {reason: "a name that resolves to 127.0.0.1", url: p.URL, change: func(r *http.Request) { r.Host = "evil.example" }, code: http.StatusMisdirectedRequest},
		"other port":          {reason: "another server of this machine", url: p.URL, change: func(r *http.Request) { r.Host = "127.0.0.1:1" }, code: http.StatusMisdirectedRequest},
		"other origin":        {reason: "a script of another page", url: p.URL, change: header("Origin", "https://evil.example"), code: http.StatusForbidden},
		"null origin":         {reason: "a page in a sandbox", url: p.URL, change: header("Origin", "null"), code: http.StatusForbidden},
		"other port origin":   {reason: "a page of another server of this machine", url: p.URL, change: header("Origin", "http://127.0.0.1:1"), code: http.StatusForbidden},
		"embedded":            {reason: "an image or frame in another page", url: p.URL, change: header("Sec-Fetch-Site", "cross-site"), code: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, http.NoBody)
			require.NoError(t, err)
			if test.change != nil {
				test.change(r)
			}
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer answer.Body.Close() //nolint:errcheck // it was only read
			require.Equal(t, test.code, answer.StatusCode, test.reason)
			require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
			require.NotContains(t, answer.Header.Get("Content-Security-Policy"), "unsafe")
			require.Equal(t, "same-origin", answer.Header.Get("Referrer-Policy"))
			if test.code != http.StatusOK {
				var body bytes.Buffer
				_, err := body.ReadFrom(answer.Body)
				require.NoError(t, err)
				require.NotContains(t, body.String(), "shop", "nothing of the cluster")
				require.NotContains(t, body.String(), strings.Trim(p.URL[len(root):], "/"), "nor the token")
			}
		})
	}
	t.Run("act", func(t *testing.T) {
		answer, err := http.PostForm(p.URL+"act", map[string][]string{"verb": {"suspend"}, "name": {"shop"}})
		require.NoError(t, err)
		defer answer.Body.Close() //nolint:errcheck // it was only read
		require.Equal(t, http.StatusForbidden, answer.StatusCode, "without --allow-writes")
		require.False(t, cluster.GetVidraResource(t, "shop").Spec.Suspend)
	})
}

// post judges a file without a browser.
func (p page) post(t *testing.T, fields map[string]string) (code int, body string) {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for name, value := range fields {
		require.NoError(t, w.WriteField(name, value))
	}
	require.NoError(t, w.Close())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"forecast", &form)
	require.NoError(t, err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // it was only read
	var text bytes.Buffer
	_, err = text.ReadFrom(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, text.String()
}

// TestOneNamespace has a user who may see one namespace, and no VidraResource, and one who may list VidraResources, too.
func TestOneNamespace(t *testing.T) {
	others(t)
	account := func(name string) string {
		require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}))
		cluster.GrantRule(t, "shop", name, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"configmaps", "deployments", "events"}, Verbs: []string{"get", "list", "watch"}})
		path, err := cluster.ServiceAccountKubeconfig(t.Context(), "shop", name)
		require.NoError(t, err)
		return path
	}
	editGreeting(t, "one namespace")
	p := start(t, account("member"), "-n", "shop")
	code, body := p.get(t, "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "You may not list VidraResources")
	require.Contains(t, body, "vidra-vidraresource-viewer", "the role that helps")
	require.NotContains(t, body, "billing")
	code, body = p.get(t, "object?kind=configmap&namespace=shop&name=settings")
	require.Equal(t, http.StatusOK, code, body)
	require.Contains(t, body, "greeting: hello")
	require.Contains(t, body, "Not shown")
	code, body = p.get(t, "object?kind=configmap&namespace=cart&name=cart")
	require.NotEqual(t, http.StatusOK, code)
	require.NotContains(t, body, "greeting: bye")
	code, body = p.get(t, "vr/shop")
	require.Equal(t, http.StatusForbidden, code)
	require.NotContains(t, body, "greeting")

	viewer := account("viewer")
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ui-viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vidra-vidraresource-viewer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "shop", Name: "viewer"}},
	}))
	p = start(t, viewer)
	code, body = p.get(t, "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "billing")
	code, body = p.get(t, "object?kind=configmap&namespace=cart&name=cart")
	require.Equal(t, http.StatusOK, code, body)
	require.Contains(t, body, "you may not get configmaps")
	require.NotContains(t, body, "greeting: bye")

	live := p.open(t, "vr/shop", desktop)
	live.await("Live")
	requireLive(t, live, "of one namespace")
}

// TestForecast judges files: a Secret stays masked, a fault is named, and nothing is written.
func TestForecast(t *testing.T) {
	shop(t)
	p := start(t, kubeconfig)
	versions := func() (all []any) {
		cm := theSettings()
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(cm), cm))
		return append(all, cluster.GetVidraResource(t, "shop").Generation, cm.ResourceVersion)
	}
	before := versions()
	code, body := p.post(t, map[string]string{"file": "shop.yaml", "text": forecastFile})
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "This will fight over spec.replicas of Deployment shop/web, which HorizontalPodAutoscaler shop/web writes.")
	require.Less(t, strings.Index(body, "What an apply would do"), strings.Index(body, "What will fight"), "the differences come first")
	require.Contains(t, body, "This deletes Secret shop/credentials.")
	_, apply, found := strings.Cut(body, "What an apply would do")
	require.True(t, found)
	require.Less(t, strings.Index(apply, "Secret shop/credentials"), strings.Index(apply, "fights over spec.replicas"), "deletions come first")
	require.Less(t, strings.Index(apply, "fights over spec.replicas"), strings.Index(apply, "ConfigMap shop/settings"), "then fights, then changes")
	require.Contains(t, body, "shop.yaml, spec.manifest: document 1, line 1")
	require.Contains(t, body, `data-from-file="shop"`)
	require.Contains(t, body, "Then remove spec.replicas from the manifest")
	require.Contains(t, body, "colour: green")
	require.Contains(t, body, "- /spec/replicas", "the rule to paste")
	_, body = p.post(t, map[string]string{"text": "apiVersion: v1\nkind: Secret\nmetadata: {name: credentials}\nstringData: {password: tunafish}\n", "vidraresource": "shop"})
	require.Contains(t, body, "Secret shop/credentials")
	require.NotContains(t, body, "tunafish")
	require.NotContains(t, body, "swordfish")
	for text, want := range map[string]string{"": "The file is empty", "a: [": "not judged", "kind: <script>alert(1)</script>\napiVersion: v1\nmetadata: {name: a}": "&lt;script&gt;"} {
		_, body = p.post(t, map[string]string{"text": text})
		require.Contains(t, body, want)
		require.NotContains(t, body, "<script>alert")
	}
	require.Equal(t, before, versions(), "nothing was written")
}
