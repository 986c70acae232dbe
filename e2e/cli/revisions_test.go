package cli

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// sealed matches a digest in the table of revisions.
var sealed = regexp.MustCompile(`[A-Za-z0-9_-]{12}   generation`)

// TestRevisions lists revisions, applies an earlier one, and releases it.
func TestRevisions(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "revisions")
	applied := func(number int64) {
		t.Helper()
		suite.Await(t, func(c *assert.CollectT) {
			vr := &v1alpha1.VidraResource{}
			require.NoError(c, admin.Get(t.Context(), client.ObjectKey{Name: "revisions"}, vr))
			require.NotNil(c, vr.Status.Revision)
			require.Equal(c, number, vr.Status.Revision.Applied)
		})
	}
	set := func(patch string) {
		t.Helper()
		require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "revisions"}}, "%s", patch))
	}
	cluster.NewVidraResource(t, "revisions", suite.Greeting("page", "one"))
	applied(1)
	set(`{"spec":{"manifest":"` + `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {greeting: two}\n` + `"}}`)
	applied(2)
	set(`{"spec":{"revision":{"hold":true},"manifest":"` + `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {greeting: three}\n` + `"}}`)
	awaitText(t, "waits", "revisions", "revisions")
	list := ok(t, "revisions", "revisions")
	require.Regexp(t, sealed, list)
	golden(t, "revisions", sealed.ReplaceAllString(list, "DIGEST         generation"))
	awaitText(t, "generation 3", "status", "revisions")
	golden(t, "rollback", ok(t, "rollback", "revisions"))
	applied(1)
	golden(t, "rollback-release", ok(t, "rollback", "revisions", "--release"))
	applied(3)
	require.Equal(t, "from: 3\nreleased: true\nunchanged: true\nvidraResource: revisions\n", ok(t, "rollback", "revisions", "--release", "-o", "yaml"))
	require.Contains(t, vidra(t, "rollback", "revisions", "--to", "0").stderr, "--to 0: name a revision from 1 on, as `vidra revisions revisions` lists them")
	require.Contains(t, vidra(t, "__complete", "rollback", "revisions", "--to", "").stdout, "1\tgeneration 1\n")
}
