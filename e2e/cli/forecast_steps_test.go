package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestForecastSteps follows the steps of a forecast one by one, while an autoscaler of another author scales a Deployment: each number of
// replicas that the Deployment ever has is one of the autoscaler.
func TestForecastSteps(t *testing.T) {
	t.Parallel()
	web := suite.Web(2)
	tests := map[string]struct {
		reason string
		// applied is whether the VidraResource exists before the forecast.
		applied bool
		// replicas are the numbers of the Deployment when the forecast is asked for, and those that the autoscaler sets later.
		replicas []int32
	}{
		"fight":    {"the VidraResource has the manifest with the field", true, []int32{2, 5, 7}},
		"adoption": {"the Deployment exists, and is adopted", false, []int32{5, 7, 3}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "steps-" + name
			makeNamespace(t, ns)
			hpa, deployment := &autoscalingv2.HorizontalPodAutoscaler{}, &appsv1.Deployment{}
			require.NoError(t, yaml.Unmarshal([]byte(autoscaler), hpa))
			require.NoError(t, yaml.Unmarshal([]byte(web), deployment))
			hpa.Namespace, deployment.Namespace = ns, ns
			require.NoError(t, admin.Create(t.Context(), hpa, client.FieldOwner("other-team")))
			if tt.applied {
				cluster.NewVidraResource(t, ns, web)
				cluster.AwaitReady(t, ns)
				require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
			} else {
				deployment.Spec.Replicas = &tt.replicas[0]
				require.NoError(t, admin.Create(t.Context(), deployment, client.FieldOwner("kubectl-create")))
			}
			watches, err := client.NewWithWatch(cluster.Config, client.Options{})
			require.NoError(t, err)
			seen, err := watches.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(ns))
			require.NoError(t, err)
			defer seen.Stop()
			scale := func(to int32) {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+string('0'+to)+`}}`))
				require.NoError(t, admin.SubResource("scale").Patch(t.Context(), deployment.DeepCopy(), patch, client.FieldOwner("kube-controller-manager")))
			}
			without := regexp.MustCompile(`(?m)^ *replicas: .*\n`).ReplaceAllString(web, "")
			require.NotEqual(t, web, without)

			file := vidraResourceFile(t, ns, nil, web)
			forecast := vidra(t, "forecast", "-f", file)
			require.Equal(t, 1, forecast.code, forecast.stderr)
			rules, rest := stepOne(t, forecast.stdout)
			patch, err := yaml.YAMLToJSON([]byte(rules))
			require.NoError(t, err)
			v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns}}
			if tt.applied { // step 1
				require.NoError(t, admin.Patch(t.Context(), v, client.RawPatch(types.MergePatchType, patch)))
				require.Less(t, strings.Index(rest, "2. Wait"), strings.Index(rest, "3. Then you may omit"))
				ok(t, commandIn(t, rest)...) // step 2
			} else {
				cluster.NewVidraResource(t, ns, web, func(v *v1alpha1.VidraResource) {
					v.Spec.Adopt = v1alpha1.AdoptAlways
					require.NoError(t, yaml.Unmarshal([]byte(rules), v))
				})
				require.NotContains(t, rest, "omit")
				cluster.AwaitReady(t, ns)
			}
			scale(tt.replicas[1])
			cluster.SetManifest(t, ns, without) // step 3
			ok(t, "wait", ns)
			scale(tt.replicas[2])
			ok(t, "wait", ns)
			require.NoError(t, admin.Patch(t.Context(), deployment.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"managed-by":"other"}}}`))))
			awaitHealed(t, ns)

			require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
			final, last := deployment.ResourceVersion, int32(0)
			for event := range seen.ResultChan() {
				d, is := event.Object.(*appsv1.Deployment)
				require.True(t, is)
				last = ptr.Deref(d.Spec.Replicas, 0)
				require.Contains(t, tt.replicas, last, tt.reason)
				if d.ResourceVersion == final {
					break
				}
			}
			require.Equal(t, tt.replicas[2], last, tt.reason)
		})
	}
}

// awaitHealed waits until an edit of an object was reverted.
func awaitHealed(t *testing.T, name string) {
	t.Helper()
	awaitText(t, "managed-by", "history", name, "-o", "wide")
}

// stepOne returns the rules of the first step of a forecast, and the steps after it.
func stepOne(t *testing.T, text string) (rules, rest string) {
	t.Helper()
	_, text, found := strings.Cut(text, "\n1. Paste this into VidraResource ")
	require.True(t, found)
	_, text, found = strings.Cut(text, "\n")
	require.True(t, found)
	var b strings.Builder
	for line := range strings.Lines(text) {
		inside, is := strings.CutPrefix(line, "     ")
		if !is {
			break
		}
		b.WriteString(inside)
		text = text[len(line):]
	}
	return b.String(), text
}

// commandIn returns the arguments of the command of the second step.
func commandIn(t *testing.T, text string) []string {
	t.Helper()
	_, command, _ := strings.Cut(text, "`")
	command, _, _ = strings.Cut(command, "`")
	words := strings.Fields(command)
	require.Greater(t, len(words), 2, text)
	return words[len(words)-2:]
}
