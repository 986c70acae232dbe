package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestShardsInLeases reads the shards whose operators run.
func TestShardsInLeases(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lease := func(of v1alpha1.Installation, shard, selector string, renewed time.Duration) coordinationv1.Lease {
		l := coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("a"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: now.Add(-renewed)},
		}}
		if l.Name = leaseName(of, v1alpha1.Shard(shard)); selector != "" {
			l.Annotations = map[string]string{selectorAnnotation: selector}
		}
		return l
	}
	ended := lease("", "team=a", "team=a", 0)
	ended.Spec.HolderIdentity = new("")
	tests := map[string]struct {
		reason string
		leases []coordinationv1.Lease
		want   []v1alpha1.Shard
		known  bool
	}{
		"none":         {"This operator may be the only one.", nil, nil, true},
		"two":          {"Both run.", []coordinationv1.Lease{lease("", "team=a", "team=a", 0), lease("", "team=b", "team=b", time.Minute)}, []v1alpha1.Shard{"team=a", "team=b"}, true},
		"expired":      {"Its operators do not run.", []coordinationv1.Lease{lease("", "team=a", "team=a", time.Hour)}, nil, true},
		"released":     {"So it is.", []coordinationv1.Lease{ended}, nil, true},
		"all":          {"An operator without a selector has every VidraResource.", []coordinationv1.Lease{lease("", "", "", 0)}, nil, false},
		"older":        {"An operator of an earlier version writes no selector.", []coordinationv1.Lease{lease("", "team=a", "", 0)}, nil, false},
		"another name": {"A selector is that of the Lease.", []coordinationv1.Lease{lease("", "team=a", "team=b", 0)}, nil, false},
		"installation": {"Its VidraResources are others.", []coordinationv1.Lease{lease("east", "team=a", "team=a", 0), lease("east", "", "", 0)}, nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shards, known := shardsIn(tt.leases, "", now)
			require.Equal(t, tt.known, known, tt.reason)
			require.Equal(t, tt.want, shards, tt.reason)
		})
	}
}

// TestSelected: a VidraResource is selected by the shards whose selector has its labels.
func TestSelected(t *testing.T) {
	t.Parallel()
	vr := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}}}
	require.True(t, selected(vr, "", []v1alpha1.Shard{"team=b", "team=a"}))
	require.False(t, selected(vr, "", []v1alpha1.Shard{"team=b", "!team"}))
	require.True(t, selected(vr, "east", nil), "it is of another installation")
}
