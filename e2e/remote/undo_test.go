package remote

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRemoteUndoWhole renames a container in another cluster: the edit is undone whole there,
// with two writes, and reported here.
func TestRemoteUndoWhole(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	newVidraResource(t, d.url(), d.name, idle)
	v := awaitReady(t, d.name)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: "idle"}}
	containers := func(t require.TestingT) (names []string) {
		require.NoError(t, there.Admin.Get(context.Background(), client.ObjectKeyFromObject(deployment), deployment))
		for _, c := range deployment.Spec.Template.Spec.Containers {
			names = append(names, c.Name)
		}
		return names
	}
	require.Equal(t, []string{"idle"}, containers(t))
	mark := there.AuditMark(t)
	rename := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"busy"}]`))
	require.NoError(t, there.Admin.Patch(t.Context(), deployment.DeepCopy(), rename, client.FieldOwner(person)))
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "", "Deployment "+d.name+"/idle", `containers[name="idle"]`,
		`emoved spec.template.spec.containers[name="busy"]; "`+person+`" had added it`)
	await(t, func(c *assert.CollectT) { require.Equal(c, []string{"idle"}, containers(c)) })
	require.LessOrEqual(t, len(there.RequestsBy(t, mark, d.user).ObjectsIn(d.name).Writes().Accepted()), 2)
	awaitReady(t, d.name)
}
