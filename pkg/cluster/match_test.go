package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// sourceOf is what is kept of a Secret.
func sourceOf(t *testing.T, name, kubeconfig string) *source {
	t.Helper()
	kept, err := toSource(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Data:       map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	})
	require.NoError(t, err)
	return kept.(*source)
}

func TestMatch(t *testing.T) {
	t.Parallel()
	// forServer is a kubeconfig with one context for a server.
	forServer := func(server string) string {
		return write(t, one(&clientcmdapi.Cluster{Server: server}, &clientcmdapi.AuthInfo{Token: confidential}))
	}
	// contexts is a kubeconfig with the contexts admin and view for a server.
	contexts := func(current, adminToken, viewToken string) string {
		return write(t, clientcmdapi.Config{
			Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: "https://a.example.com"}, "d": {Server: "https://d.example.com"}},
			AuthInfos: map[string]*clientcmdapi.AuthInfo{"admin": {Token: adminToken}, "view": {Token: viewToken}},
			Contexts: map[string]*clientcmdapi.Context{
				"admin": {Cluster: "c", AuthInfo: "admin"}, "view": {Cluster: "c", AuthInfo: "view", Namespace: "n"},
				"other": {Cluster: "d", AuthInfo: "view"},
			},
			CurrentContext: current,
		})
	}
	const broken = "{" + confidential
	tests := map[string]struct {
		server  string
		secrets map[string]string
		// want is the Secret and the context that match, wantErr what the error says.
		// If both are empty, none matches.
		want    string
		wantErr []string
	}{
		"the whole URL":          {"https://a.example.com", map[string]string{"a": forServer("https://A.example.com:443/"), "b": forServer("https://b.example.com")}, "ns/a x", nil},
		"the path counts":        {"https://h/1", map[string]string{"a": forServer("https://h/1"), "b": forServer("https://h/2"), "c": forServer("https://h")}, "ns/a x", nil},
		"the host alone":         {"https://h/1", map[string]string{"a": forServer("https://h"), "b": forServer("https://h2/1")}, "ns/a x", nil},
		"another port":           {"https://h:1", map[string]string{"a": forServer("https://h:2")}, "", nil},
		"another scheme":         {"https://h:1", map[string]string{"a": forServer("http://h:1")}, "", nil},
		"none":                   {"https://h", nil, "", nil},
		"two Secrets":            {"https://h", map[string]string{"b": forServer("https://h"), "a": forServer("https://h/")}, "", []string{"more than one Secret", "ns/a, ns/b", KubeconfigLabel}},
		"another path":           {"https://h/1", map[string]string{"a": forServer("https://h/2")}, "", nil},
		"another path, and none": {"https://h/1", map[string]string{"a": forServer("https://h/2"), "b": forServer("https://h")}, "ns/b x", nil},
		"two on the same host":   {"https://h", map[string]string{"a": forServer("https://h/2"), "b": forServer("https://h/1")}, "", []string{"ns/a, ns/b"}},
		"the current context":    {"https://a.example.com", map[string]string{"a": contexts("view", "1", "2")}, "ns/a view", nil},
		"two contexts":           {"https://a.example.com", map[string]string{"a": contexts("other", "1", "2")}, "", []string{"ns/a", "admin, view", "current-context"}},
		"two of the same user":   {"https://a.example.com", map[string]string{"a": contexts("", "1", "1")}, "ns/a admin", nil},
		"not the current one":    {"https://d.example.com", map[string]string{"a": contexts("view", "1", "2")}, "ns/a other", nil},
		"a broken one beside it": {"https://h", map[string]string{"a": broken, "b": forServer("https://h")}, "ns/b x", nil},
		"only a broken one":      {"https://h", map[string]string{"a": broken}, "", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sources []*source
			for name, kubeconfig := range tc.secrets {
				sources = append(sources, sourceOf(t, name, kubeconfig))
			}
			store := cache.NewStore(func(obj any) (string, error) { return obj.(*source).secret(), nil })
			for _, one := range sources {
				require.NoError(t, store.Add(one))
			}
			got, err := match(tc.server, newSources(store).byOrigin)
			for _, text := range tc.wantErr {
				require.ErrorContains(t, err, text)
				require.ErrorContains(t, err, tc.server)
				require.NotContains(t, err.Error(), confidential)
			}
			if tc.wantErr == nil {
				require.NoError(t, err)
			}
			if tc.want == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, tc.want, got.secret+" "+got.context)
		})
	}
}

func TestUnmatchedNamesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	err := unmatched("https://h", "", nil)
	require.EqualError(t, err, "no Secret with the label cluster-kubeconfig in any namespace has a kubeconfig for https://h: create one, or correct the URL")

	var sources []*source
	for i := range maxNamedSecrets + 2 {
		sources = append(sources, sourceOf(t, fmt.Sprint(i), "{"+confidential))
	}
	err = unmatched("https://h", "vidra", sources)
	require.ErrorContains(t, err, "in namespace vidra")
	require.ErrorContains(t, err, "ns/0 (it holds no kubeconfig")
	require.ErrorContains(t, err, "and 2 more")
	require.NotContains(t, err.Error(), confidential)
}
