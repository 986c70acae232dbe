package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestEvents lists the Events of a VidraResource, of an object and of a reason.
func TestEvents(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "events")
	require.Equal(t, answer{stderr: "No events found.\n"}, vidra(t, "events", "-n", "events"))
	cluster.NewVidraResource(t, "events", settings)
	vr := cluster.AwaitReady(t, "events")
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "Applied", "Apply")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "events", Name: "settings"}}
	edit := client.RawPatch(types.MergePatchType, []byte(`{"data":{"greeting":"bye"}}`))
	require.NoError(t, admin.Patch(t.Context(), cm.DeepCopy(), edit, client.FieldOwner("kubectl-edit")))
	cluster.AwaitEvent(t, cm, corev1.EventTypeNormal, "ChangeReverted", "Restore", "data.greeting")
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting")

	golden(t, "events", ok(t, "events", "--vidraresource", "events", "--reason", "Applied,DriftCorrected"))
	golden(t, "events-for", ok(t, "events", "--for", "cm/settings", "-n", "events", "--reason", "DriftCorrected"))
	golden(t, "events-wide", instance.ReplaceAllString(ok(t, "events", "-n", "events", "--reason", "ChangeReverted", "-o", "wide"), "${1}INSTANCE${2}"))
	golden(t, "events-yaml", madeUp.ReplaceAllString(ok(t, "events", "-n", "events", "--reason", "ChangeReverted", "-o", "yaml"), "${1}ID"))
	require.Equal(t, answer{stderr: "No events found.\n"}, vidra(t, "events", "--vidraresource", "events", "--type", "Warning"))
	require.Contains(t, vidra(t, "events", "--reason", "Correct").stderr, `"Correct"`)
}

var (
	// madeUp are the fields of an Event that the API server and the operator make up.
	madeUp = regexp.MustCompile(`(?m)^( *(?:uid|resourceVersion|reportingInstance): |    name: settings[.])\S+$`)
	// instance is the operator in a table of Events: its host.
	instance = regexp.MustCompile(`(VidraResource events +)\S+( +events )`)
)

// TestLint checks files without a cluster.
func TestLint(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata:\n  name: shop\nspec:\n  destination:\n    namespace: shop\n"
	indented := "  manifest: |\n    " + strings.ReplaceAll(strings.TrimSpace(settings), "\n", "\n    ") + "\n"
	lint := func(text string) answer {
		path := writeFile(t, text)
		a := vidraAs(t, "/nonexistent", "lint", "-f", path)
		a.stdout = strings.ReplaceAll(a.stdout, path, "FILE")
		require.Empty(t, a.stderr)
		return a
	}
	good := lint(head + indented)
	require.Equal(t, 0, good.code)
	golden(t, "lint", good.stdout)
	wrong := lint(head + strings.ReplaceAll(indented, "kind: ConfigMap", "kynd: ConfigMap") + "  drift:\n    mood: Warn\n")
	require.Equal(t, 1, wrong.code)
	golden(t, "lint-field", wrong.stdout)
	wrong = lint(head + strings.ReplaceAll(indented, "kind: ConfigMap", "kynd: ConfigMap"))
	require.Equal(t, 1, wrong.code)
	golden(t, "lint-manifest", wrong.stdout)
}

// TestVersion prints the version, and what the program is called for its user.
func TestVersion(t *testing.T) {
	t.Parallel()
	version := ok(t, "version")
	require.Contains(t, version, " "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	golden(t, "version", regexp.MustCompile(` \S+ \S+ \S+\n`).ReplaceAllString(version, " VERSION GO PLATFORM\n"))

	plugin := filepath.Join(t.TempDir(), "kubectl-vidra")
	require.NoError(t, os.Symlink(binary, plugin))
	missing := run(t, plugin, cluster.KubeconfigPath, "get", "missing")
	require.Contains(t, missing.stderr, "VidraResource missing does not exist; `kubectl vidra get` lists those that do")
}
