package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
)

func TestLimitMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	cases := map[string]struct {
		reason             string
		variable, goMemory string
		want               int64
		wantErr            string
	}{
		"Unset":      {"outside of a container there is no limit", "", "", math.MaxInt64, ""},
		"Container":  {"a tenth is left to what the runtime does not count", "536870900", "", 483183810, ""},
		"GOMEMLIMIT": {"the runtime has read it already", "536870900", "400MiB", math.MaxInt64, ""},
		"Unreadable": {"a quantity is no number of bytes", "512Mi", "", math.MaxInt64, `MEMORY_LIMIT is "512Mi": set it to a number of bytes`},
		"Negative":   {"a limit is positive", "-1", "", math.MaxInt64, `MEMORY_LIMIT is "-1"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv(memoryLimitVariable, tc.variable)
			t.Setenv("GOMEMLIMIT", tc.goMemory)
			err := limitMemory()
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr, tc.reason)
			} else {
				require.NoError(t, err, tc.reason)
			}
			require.Equal(t, tc.want, debug.SetMemoryLimit(-1), tc.reason)
		})
	}
}

func TestSetGCPercent(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	cases := map[string]struct {
		reason, variable string
		want             int
	}{
		"Unset": {"the heap is mostly what is known of the objects", "", 50},
		"GOGC":  {"the runtime has read it already", "200", 100},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			debug.SetGCPercent(100)
			t.Setenv("GOGC", tc.variable)
			setGCPercent()
			require.Equal(t, tc.want, debug.SetGCPercent(100), tc.reason)
		})
	}
}

// TestCompact requires that the cache keeps what reconciles read, and texts that are equal once.
func TestCompact(t *testing.T) {
	t.Parallel()
	entry := func() v1alpha1.ManagedResourceStatus {
		return v1alpha1.ManagedResourceStatus{
			APIVersion: strings.Clone("v1"), Kind: strings.Clone("ConfigMap"), Namespace: strings.Clone("default"),
			State: v1alpha1.ObjectState(strings.Clone("Applied")), Health: v1alpha1.ObjectHealth(strings.Clone("Current")),
		}
	}
	vr := &v1alpha1.VidraResource{}
	vr.Name, vr.Spec.Manifest, vr.ManagedFields = "one", "kind: ConfigMap", []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	vr.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", v1alpha1.FirstInventoryAnnotation: "{}", "other": "kept"}
	vr.Status.ManagedResources = append(make([]v1alpha1.ManagedResourceStatus, 0, 100), entry(), entry())
	want := vr.DeepCopy()
	want.ManagedFields, want.Annotations = nil, map[string]string{"other": "kept"}
	transform := compact(&status.Inventories{})
	got, err := transform(vr)
	require.NoError(t, err)
	require.Equal(t, want, got)
	entries := got.(*v1alpha1.VidraResource).Status.ManagedResources
	require.Less(t, cap(entries), 100)
	one, other := entries[0], entries[1]
	require.Same(t, unsafe.StringData(one.APIVersion), unsafe.StringData(other.APIVersion))
	require.Same(t, unsafe.StringData(one.Kind), unsafe.StringData(other.Kind))
	require.Same(t, unsafe.StringData(one.Namespace), unsafe.StringData(other.Namespace))
	require.Same(t, unsafe.StringData(string(one.State)), unsafe.StringData(string(other.State)))
	require.Same(t, unsafe.StringData(string(one.Health)), unsafe.StringData(string(other.Health)))
	tombstone, err := transform(toolscache.DeletedFinalStateUnknown{Key: "one"})
	require.NoError(t, err)
	require.Equal(t, toolscache.DeletedFinalStateUnknown{Key: "one"}, tombstone)

	written := &status.Inventories{}
	written.Write("one", entries)
	again := want.DeepCopy()
	_, err = compact(written)(again)
	require.NoError(t, err)
	require.Same(t, unsafe.SliceData(entries), unsafe.SliceData(again.Status.ManagedResources), "what Vidra wrote is kept once")
}

// TestDeploymentSetsTheMemoryLimit: the container has a limit, and the operator knows it.
func TestDeploymentSetsTheMemoryLimit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "deployment.yaml"))
	require.NoError(t, err)
	deployment := &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict(text, deployment))
	container := deployment.Spec.Template.Spec.Containers[0]
	require.EqualValues(t, 512<<20, container.Resources.Limits.Memory().Value(), "docs/security.md names it")
	for _, variable := range container.Env {
		if variable.Name == memoryLimitVariable {
			require.Equal(t, "limits.memory", variable.ValueFrom.ResourceFieldRef.Resource)
			return
		}
	}
	require.Fail(t, "the container has no "+memoryLimitVariable)
}

// TestDroppedIsForgotten: nothing is left of a VidraResource that has left the cache, also where no reconcile forgets it, as on a replica that waits.
func TestDroppedIsForgotten(t *testing.T) {
	inventories := &status.Inventories{}
	cached := func() *v1alpha1.VidraResource {
		obj, err := compact(inventories)(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}}})
		require.NoError(t, err)
		return obj.(*v1alpha1.VidraResource)
	}
	gone := func() bool {
		runtime.GC()
		return inventories.Dropped("shop") == 0
	}
	before := cached()
	after := cached()
	runtime.KeepAlive(before)
	require.Never(t, gone, 100*time.Millisecond, 10*time.Millisecond, "the cache has it in another version")
	runtime.KeepAlive(after)
	require.Eventually(t, gone, 10*time.Second, 10*time.Millisecond)
}
