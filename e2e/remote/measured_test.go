package remote

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/vidratest"
)

// TestMeasuredAtADestination measures heals of an object in another cluster, with the kubeconfig that the operator uses.
func TestMeasuredAtADestination(t *testing.T) {
	t.Parallel()
	vidra := newCLI(t)
	d, _ := newDestination(t)
	page := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  annotations: {" + v1alpha1.DrillAnnotation + ": sentinel}\ndata: {greeting: hello}\n"
	newVidraResource(t, d.url(), d.name, page)
	awaitReady(t, d.name)

	out, said, code := vidra(t, here.KubeconfigPath, "drill", d.name, "--within", patience.String())
	require.Equal(t, 0, code, said)
	require.Contains(t, out, "annotation "+v1alpha1.DrillAnnotation+" of ConfigMap "+d.name+"/page")
	require.Contains(t, out, `DriftCorrected to "`+vidratest.DrillManager+`"`)

	expect := []string{"expect", "healed", "configmap/page", "-n", d.name, "--within", patience.String()}
	out, said, code = vidra(t, here.KubeconfigPath, expect...)
	require.Equal(t, "ConfigMap "+d.name+"/page: as wanted\n", out, said)
	require.Equal(t, 0, code)

	cluster, err := vidratest.New(here.Config)
	require.NoError(t, err)
	object := vidratest.Object{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: d.name, Name: "page"}
	heal, err := cluster.Healed(t.Context(), object, patience, func(context.Context) error {
		return there.MergePatch(configMap(d.name, "page"), `{"data":{"greeting":"bye"}}`)
	})
	require.NoError(t, err)
	require.Len(t, heal.Changes, 1)
	require.Equal(t, "data.greeting", heal.Changes[0].Path)
	require.Equal(t, "hello", there.says(t, d.name, "page"))

	_, said, code = vidra(t, here.KubeconfigPath, append(expect, "--kubeconfig-namespace", d.name)...)
	require.Equal(t, 2, code)
	require.Contains(t, said, "no Secret with the label cluster-kubeconfig in namespace "+d.name+" has a kubeconfig for")

	// What another VidraResource manages in this cluster goes first.
	here.MakeNamespace(t, d.name)
	here.NewVidraResource(t, d.name+"-here", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: "+d.name+"}\n")
	awaitReady(t, d.name+"-here")
	_, said, code = vidra(t, here.KubeconfigPath, "suspend", d.name+"-here")
	require.Equal(t, 0, code, said)
	awaitCondition(t, d.name+"-here", metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	require.NoError(t, here.Admin.Delete(t.Context(), configMap(d.name, "page")))
	_, err = cluster.AwaitHealed(t.Context(), object, time.Second)
	require.ErrorContains(t, err, "VidraResource "+d.name+"-here is suspended")
	_, said, code = vidra(t, here.KubeconfigPath, "resume", d.name+"-here")
	require.Equal(t, 0, code, said)
}
