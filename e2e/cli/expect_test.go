package cli

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// patchVariable has this program patch the ConfigMap settings of a namespace and end: "NAMESPACE PATCH", or
// "NAMESPACE delete".
const patchVariable = "VIDRA_TEST_PATCH"

// patchSettings does what patchVariable says, as the command of a user would.
func patchSettings(what string) int {
	var namespace, patch string
	_, err := fmt.Sscan(what, &namespace, &patch)
	config, configErr := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil || configErr != nil {
		return 3
	}
	configMaps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(namespace)
	if patch == "delete" {
		err = configMaps.Delete(context.Background(), "settings", metav1.DeleteOptions{})
	} else {
		_, err = configMaps.Patch(context.Background(), "settings", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	}
	if err != nil {
		return 3
	}
	return 0
}

// milliseconds are durations that were measured.
var milliseconds = regexp.MustCompile(`\b[0-9.]+(ms|µs|s)\b`)

// expectHealed runs `vidra expect healed` for the ConfigMap settings of a namespace, whose edit is a patch.
func expectHealed(t *testing.T, namespace, patch string, args ...string) answer {
	t.Helper()
	args = append([]string{"expect", "healed", "cm/settings", "-n", namespace}, args...)
	if patch != "" {
		self, err := os.Executable()
		require.NoError(t, err)
		args = append(args, "--", "env", patchVariable+"="+namespace+" "+patch, self)
	}
	a := vidra(t, args...)
	a.stdout = milliseconds.ReplaceAllString(a.stdout, "TIME")
	return a
}

// junit is a report as a test runner reads it.
type junit struct {
	XMLName  xml.Name `xml:"testsuite"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Cases    []struct {
		Name    string  `xml:"name,attr"`
		Time    float64 `xml:"time,attr"`
		Failure string  `xml:"failure"`
		Error   string  `xml:"error"`
		Output  string  `xml:"system-out"`
	} `xml:"testcase"`
}

func readReport(t *testing.T, path string) (report junit) {
	t.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // the test named it
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(text, &report), string(text))
	require.Equal(t, 1, report.Tests)
	require.Len(t, report.Cases, 1)
	return report
}

// TestExpect requires heals: of edits that the command makes, and of earlier ones.
func TestExpect(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "expect")
	cluster.NewVidraResource(t, "expect", settings)
	cluster.AwaitReady(t, "expect")
	file := filepath.Join(t.TempDir(), "report.xml")
	within := []string{"--within", suite.Patience.String(), "--junit", file}

	edited := expectHealed(t, "expect", `{"data":{"colour":"red"}}`, within...)
	require.Equal(t, 0, edited.code, edited.stderr)
	golden(t, "expect", edited.stdout)
	report := readReport(t, file)
	require.Zero(t, report.Failures+report.Errors)
	require.Equal(t, "healed cm/settings within "+suite.Patience.String(), report.Cases[0].Name)
	require.Positive(t, report.Cases[0].Time)
	require.Contains(t, report.Cases[0].Output, `data.colour is "red" and should be "blue"`)

	deleted := expectHealed(t, "expect", "delete", within...)
	require.Equal(t, "ConfigMap expect/settings: healed TIME after the edit was seen\n  it had been deleted\n", deleted.stdout, deleted.stderr)
	require.Equal(t, answer{stdout: "ConfigMap expect/settings: as wanted\n"}, expectHealed(t, "expect", ""))
	require.Contains(t, vidra(t, "__complete", "-n", "expect", "expect", "").stdout, "healed\n")
	require.Contains(t, vidra(t, "__complete", "-n", "expect", "expect", "healed", "").stdout, "configmap/settings\n")

	for text, a := range map[string]answer{
		"ConfigMap expect/settings: the edit changed no field that a VidraResource applies": expectHealed(t, "expect", `{"data":{"more":"x"}}`, within...),
		"the command env: exit status 3":                                              expectHealed(t, "expect", `{`, within...),
		"no VidraResource of this cluster manages ConfigMap default/kube-root-ca.crt": vidra(t, "expect", "healed", "cm/kube-root-ca.crt"),
		`"deleted cm/settings": want healed KIND/NAME`:                                vidra(t, "expect", "deleted", "cm/settings"),
		"want a time above 0":                                                         expectHealed(t, "expect", "", "--within", "0s"),
	} {
		require.Equal(t, 2, a.code, text)
		require.Contains(t, a.stderr, text)
	}
	_ = vidra(t, "expect", "healed", "cn/settings", "--junit", file)
	report = readReport(t, file)
	require.Equal(t, 1, report.Errors)
	require.Contains(t, report.Cases[0].Error, `the cluster serves no kind "cn"`)
}

// TestExpectSuspended fails, because nothing is reverted.
func TestExpectSuspended(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "unhealed")
	cluster.NewVidraResource(t, "unhealed", settings)
	cluster.AwaitReady(t, "unhealed")
	ok(t, "suspend", "unhealed")
	cluster.AwaitCondition(t, "unhealed", metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	file := filepath.Join(t.TempDir(), "report.xml")

	late := expectHealed(t, "unhealed", `{"data":{"colour":"red"}}`, "--within", "250ms", "--junit", file)
	require.Equal(t, 1, late.code)
	require.Empty(t, late.stdout)
	golden(t, "expect-suspended", late.stderr)
	report := readReport(t, file)
	require.Equal(t, 1, report.Failures)
	require.Contains(t, report.Cases[0].Failure, "VidraResource unhealed is suspended")
	require.GreaterOrEqual(t, report.Cases[0].Time, 0.25)

	again := expectHealed(t, "unhealed", "", "--within", "250ms")
	require.Equal(t, 1, again.code)
	require.Equal(t, late.stderr, again.stderr, "of the earlier edit")
	before := expectHealed(t, "unhealed", `{"data":{"colour":"green"}}`, "--within", "250ms")
	require.Equal(t, 1, before.code)
	require.Contains(t, before.stderr, "ConfigMap unhealed/settings is not as wanted before the edit: ")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "unhealed", Name: "settings"}}
	colour, _, err := unstructured.NestedString(cluster.Get(t, cm).Object, "data", "colour")
	require.NoError(t, err)
	require.Equal(t, "red", colour, "the command did not run")

	ok(t, "resume", "unhealed")
	healed := expectHealed(t, "unhealed", "", "--within", suite.Patience.String())
	require.Equal(t, 0, healed.code, healed.stderr)
	require.NotEmpty(t, healed.stdout)
}

// sentinel is a ConfigMap whose edit starts nothing.
const sentinel = `apiVersion: v1
kind: ConfigMap
metadata:
  name: sentinel
  annotations:
    ` + v1alpha1.DrillAnnotation + `: sentinel
`

// TestDrill edits the sentinel, and finds out who did.
func TestDrill(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "drill")
	cluster.NewVidraResource(t, "drill", suite.Manifests(settings, sentinel))
	cluster.AwaitReady(t, "drill")
	for range 2 {
		golden(t, "drill", milliseconds.ReplaceAllString(ok(t, "drill", "drill"), "TIME"))
	}
	require.Contains(t, ok(t, "history", "drill"), "2   ", "both are one entry")

	ok(t, "suspend", "drill")
	cluster.AwaitCondition(t, "drill", metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "drill", Name: "sentinel"}}
	version := cluster.Get(t, cm).GetResourceVersion()
	refused := vidra(t, "drill", "drill")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr, "nothing is edited, because the edit would not be reverted: VidraResource drill is suspended")
	require.Equal(t, version, cluster.Get(t, cm).GetResourceVersion())

	cluster.SetManifest(t, "drill", settings)
	refused = vidra(t, "drill", "drill")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr, "VidraResource drill: no object has an annotation that a drill may edit: give one in the manifest")
	require.Contains(t, vidra(t, "drill", "missing").stderr, "VidraResource missing does not exist")
}

// TestDrillIsUndone: where no operator reverts the edit, the command does, and the field managers own what they owned before.
func TestDrillIsUndone(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "undone")
	operatorBinary, err := suite.BuildOperator(t.Context())
	require.NoError(t, err)
	_, err = cluster.InstallFrom(t.Context(), "installation")
	require.NoError(t, err)
	start := func() *testenv.Operator {
		operator, err := cluster.StartOperator(context.Background(), testenv.OperatorOptions{
			Binary: operatorBinary, Namespace: "vidra-east", ServiceAccount: "vidra-operator-east", Args: []string{"--installation=east"},
		})
		require.NoError(t, err)
		return operator
	}
	operator := start()
	cluster.NewVidraResource(t, "undone", sentinel, func(v *v1alpha1.VidraResource) {
		v.Labels = map[string]string{v1alpha1.InstallationLabel: "east"}
	})
	cluster.AwaitReady(t, "undone")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "undone", Name: "sentinel"}}
	ok(t, "drill", "undone")
	suite.Kill(t, operator)
	before := cluster.Get(t, cm)

	late := vidra(t, "drill", "undone", "--within", "300ms")
	require.Equal(t, 1, late.code)
	require.Contains(t, late.stderr, `ConfigMap undone/sentinel is not healed after 300ms: metadata.annotations["`+v1alpha1.DrillAnnotation+
		`"] is "edited by vidra drill" and should be "sentinel", set by "kubectl-vidra-drill": check that the operator runs`)
	undone := func(t require.TestingT, version string) string {
		after := cluster.Get(t, cm)
		require.NotEqual(t, version, after.GetResourceVersion(), "it was edited")
		require.Equal(t, before.GetAnnotations(), after.GetAnnotations())
		require.Equal(t, before.GetManagedFields(), after.GetManagedFields())
		return after.GetResourceVersion()
	}
	version := undone(t, before.GetResourceVersion())

	interrupted := exec.Command(binary, "drill", "undone", "--within", "1h")
	interrupted.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "KUBECONFIG="+cluster.KubeconfigPath, "HOME="+home())
	require.NoError(t, interrupted.Start())
	suite.Await(t, func(c *assert.CollectT) {
		require.NotEqual(c, "sentinel", cluster.Get(c, cm).GetAnnotations()[v1alpha1.DrillAnnotation])
	})
	require.NoError(t, interrupted.Process.Signal(os.Interrupt))
	require.ErrorAs(t, interrupted.Wait(), new(*exec.ExitError))
	require.Equal(t, 130, interrupted.ProcessState.ExitCode())
	version = undone(t, version)

	forward, edits := reverseProxy(t, nil), atomic.Int32{}
	kubeconfig := serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" && edits.Add(1) == 1 { // it is carried out
			forward.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "Gateway Timeout", http.StatusGatewayTimeout)
			return
		}
		forward.ServeHTTP(w, r)
	}), "slow")
	lost := vidraAs(t, kubeconfig, "drill", "undone")
	require.Equal(t, 2, lost.code, lost.stderr)
	undone(t, version)

	webhook := serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(statusOf(http.StatusInternalServerError, metav1.StatusReasonInternalError, "failed calling webhook")))
			return
		}
		forward.ServeHTTP(w, r)
	}), "webhook")
	failing := vidraAs(t, webhook, "expect", "healed", "cm/sentinel", "-n", "undone", "--within", "300ms")
	require.Equal(t, 1, failing.code, failing.stderr)
	require.Contains(t, failing.stderr, "the API server refuses an apply: ")

	edits.Store(0)
	policy := serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" && edits.Add(1) > 1 { // the policy was created meanwhile
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(statusOf(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
				`configmaps "sentinel" is forbidden: ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: frozen`)))
			return
		}
		forward.ServeHTTP(w, r)
	}), "policy")
	left := vidraAs(t, policy, "drill", "undone", "--within", "300ms")
	require.NotEqual(t, "sentinel", cluster.Get(t, cm).GetAnnotations()[v1alpha1.DrillAnnotation])
	require.Contains(t, left.stderr, "set the annotation "+v1alpha1.DrillAnnotation+" of ConfigMap undone/sentinel to \"sentinel\": ")
	require.Contains(t, left.stderr, "denied request: frozen")
	start() // it removes the object; the control plane ends it
}
