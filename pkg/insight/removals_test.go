package insight

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
)

// departureOf is the ConfigMap page, which left the manifest of shop.
func departureOf() *departure {
	live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "page", "namespace": "shop"}}}
	return &departure{differ: differOf(), diff: &ObjectDifference{}, of: policy.Departure{Live: live}}
}

// edge is a receiver at another URL.
func edge() *owners.Receiver {
	vr := &v1alpha1.VidraResource{}
	vr.Name, vr.Spec.Destination.Server = "edge", "https://edge:6443"
	return &owners.Receiver{VidraResource: vr, Elsewhere: true}
}

func TestUnidentifiedReceiver(t *testing.T) {
	decision := policy.Wait(policy.ClusterUnknown, "is not removed before the cluster of VidraResource edge is known: ", "no kubeconfig", time.Now().Add(time.Hour))
	decision.Receiver = edge()
	decision.Receiver.Unidentified = errors.New("no kubeconfig")
	p := departureOf()
	p.removed(decision)
	require.Equal(t, ActionPrune, p.diff.Action)
	require.Equal(t, ". It is not removed before the cluster of VidraResource edge is known: no kubeconfig", p.remarks)
}

// TestEachReasonIsSaid: an object that waits or stays has more than its absence from the manifest as the reason, for each number that a reason
// may have.
func TestEachReasonIsSaid(t *testing.T) {
	for reason := range policy.Stale {
		decision := policy.Keep(reason, "it has its reasons")
		decision.Receiver = edge()
		p := departureOf()
		p.kept(t.Context(), decision)
		require.Contains(t, []string{ActionRelease, ActionMove}, p.diff.Action, "reason %d", reason)
		require.NotEqual(t, p.differ.left(), p.diff.Why+p.remarks, "reason %d", reason)
	}
	down := errors.New("down")
	for reason := policy.Stale; reason < 2*policy.Stale; reason++ {
		for _, receiver := range []owners.Receiver{{}, {Mentioned: true}, {Unknown: down}, {Unidentified: down}, {Mentioned: true, Unidentified: down}} {
			decision := policy.Wait(reason, "is not removed before VidraResource edge is known: ", "down", time.Now().Add(time.Hour))
			receiver.VidraResource, decision.Receiver = edge().VidraResource, &receiver
			p := departureOf()
			p.removed(decision)
			require.Contains(t, []string{ActionPrune, ActionMove}, p.diff.Action, "reason %d of %+v", reason, receiver)
			require.NotEqual(t, p.differ.left(), p.diff.Why+p.remarks, "reason %d of %+v", reason, receiver)
		}
	}
}

// TestClusterOfRemovals: the command that keeps an object which left the manifest depends on its cluster.
func TestClusterOfRemovals(t *testing.T) {
	for server, want := range map[string]string{"": "", v1alpha1.LocalServer: "", "https://eu.example.com:6443": "https://eu.example.com:6443"} {
		d := differOf()
		d.runner.VR.Spec.Destination.Server = server
		scope, err := cluster.LocalScope("bank")
		require.NoError(t, err)
		d.runner.Scope = scope
		e := &v1alpha1.ManagedResourceStatus{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}
		removed, err := d.remove(t.Context(), e, nil, &policy.Members{})
		require.NoError(t, err)
		require.Equal(t, ActionPrune, removed.Action)
		require.Equal(t, want, removed.Cluster)
	}
}
