package search

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The shards of searches with shards. The label has the value of the other one.
const (
	shardKey   = "sharding.fluxcd.io/key"
	mainShard  = v1alpha1.Shard("!" + shardKey)
	otherShard = v1alpha1.Shard(shardKey + "=other")
)

// divide has two operators work from now on, each on one shard, until the end of the test.
func divide(t *testing.T) {
	t.Helper()
	exchange := func(all []*process) {
		require.NoError(t, killOperators())
		operators = all
		require.NoError(t, startOperators(context.Background())) // the end of the test, too
	}
	whole := operators
	exchange([]*process{
		{proxy: proxies[0], args: []string{"--watch-label-selector=" + string(mainShard)}},
		{proxy: proxies[otherShardProxy], args: []string{"--watch-label-selector=" + string(otherShard)}},
	})
	t.Cleanup(func() { exchange(whole) })
}

// shards returns status.shards of a VidraResource.
func (s spec) shards() []string {
	switch {
	case len(operators) == 1:
		return nil
	case s.Shard == "":
		return []string{string(mainShard)}
	}
	return []string{string(otherShard)}
}

// shardLabelsOf returns the labels of shards that an object has.
func (r *run) shardLabelsOf(o string) []string {
	keys := map[string]bool{}
	for name, objects := range r.read {
		if _, wants := objects[o]; wants {
			for _, shard := range r.owners[name].shards() {
				keys[v1alpha1.Installation("").ShardLabelKey(v1alpha1.Shard(shard))] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// shardLabels returns the labels of shards on an object.
func shardLabels(u *unstructured.Unstructured) []string {
	labels := u.GetLabels()
	maps.DeleteFunc(labels, func(key, _ string) bool { return !v1alpha1.IsShardLabel(key) })
	return slices.Sorted(maps.Keys(labels))
}
