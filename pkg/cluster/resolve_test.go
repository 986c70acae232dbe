package cluster

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestResolve follows which cluster a URL stands for.
func TestResolve(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	secrets := &secretsOf{}
	d, _ := newDestinations(t, secrets)
	resolves := func(url, want string, wantMatched bool, reason string) {
		t.Helper()
		await(t, func(c *assert.CollectT) {
			name, matched, err := d.Resolve(server.URL + url)
			require.NoError(c, err)
			require.Equal(c, server.URL+want, name, reason)
			require.Equal(c, wantMatched, matched, reason)
		})
	}
	_, err := d.Get(server.URL) // has the Secrets read
	require.NoError(t, err)
	resolves("/a", "/a", false, "nothing is known")
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	resolves("/a", "", true, "it is the cluster of the kubeconfig")
	resolves("/b/", "", true, "whatever path an author writes")
	secrets.put("a", kubeconfigFor(t, server, "/a", confidential))
	resolves("/a", "/a", true, "the whole URL comes first")
	resolves("/b", "", true, "the path of the other one differs")
	secrets.remove("s")
	resolves("", "/a", true, "the path is in the kubeconfig")
	resolves("/b", "/b", false, "it is another path")
	_, _, err = d.Resolve("example.com")
	require.Error(t, err)

	require.True(t, MayResolveTo("HTTPS://H:443/a", "https://h"))
	require.True(t, MayResolveTo("https://h/a", "https://h/a"))
	require.False(t, MayResolveTo("https://h/a", "https://h/b"))
	require.True(t, MayResolveTo("https://h", "https://h/b"))
	require.False(t, MayResolveTo("https://h", "https://h2/b"))
	require.False(t, MayResolveTo("h", "h"))
}
