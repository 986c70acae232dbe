package remote

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestManyURLsOfOneSecret names one cluster by many URLs, which one Secret matches: it is one
// cluster, with one watch of each kind, whatever path an author writes.
func TestManyURLsOfOneSecret(t *testing.T) {
	t.Parallel()
	const urls = 8
	d, _ := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	mark := there.AuditMark(t)
	var names []string
	for i := range urls {
		name := fmt.Sprintf("%s-%d", d.name, i)
		newVidraResource(t, fmt.Sprintf("%s/path/%d", d.url(), i), d.name, greeting(fmt.Sprintf("page-%d", i), "hello"), named(name))
		names = append(names, name)
	}
	for i, name := range names {
		awaitReady(t, name)
		there.edit(t, configMap(d.name, fmt.Sprintf("page-%d", i)), `{"data":{"greeting":"changed"}}`)
		there.awaitSays(t, d.name, fmt.Sprintf("page-%d", i), "hello")
	}
	for _, resource := range []string{"configmaps", "customresourcedefinitions"} {
		watches := there.RequestsBy(t, mark, d.user).Only(func(e suite.Request) bool { return e.Verb == "watch" && e.Resource == resource }).Accepted()
		require.Equal(t, 1, len(watches), "%s", watches) //nolint:testifylint // Len would print the requests as they are in memory
	}

	// While the Secret is missing, each of them says so.
	deleteKubeconfig(t, d.name)
	for _, name := range names {
		awaitUnreachable(t, name, "no Secret with the label")
	}
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	for i, name := range names {
		awaitReady(t, name)
		await(t, func(c *assert.CollectT) { require.Equal(c, "hello", there.says(c, d.name, fmt.Sprintf("page-%d", i))) })
	}
}
