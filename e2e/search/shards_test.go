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

// The shards of searches with shards.
const (
	shardKey   = "sharding.fluxcd.io/key"
	mainShard  = v1alpha1.Shard("!" + shardKey)
	otherShard = v1alpha1.Shard(shardKey + "=other")
)

// division divides the VidraResources between two operators: a label with the value "other" has those of the second one.
type division struct {
	label        string
	first, other []string
}

var (
	shards        = &division{shardKey, []string{"--watch-label-selector=" + string(mainShard)}, []string{"--watch-label-selector=" + string(otherShard)}}
	installations = &division{v1alpha1.InstallationLabel, nil, []string{"--installation=other"}}
	// divided is the division of the operators; nil for one operator.
	divided *division
)

// divide has two operators work from now on, until the end of the test.
func divide(t *testing.T, by *division) {
	t.Helper()
	exchange := func(all []*process, by *division) {
		require.NoError(t, killOperators())
		operators, divided = all, by
		require.NoError(t, startOperators(context.Background())) // the end of the test, too
	}
	whole := operators
	exchange([]*process{
		{proxy: proxies[0], args: by.first},
		{proxy: proxies[secondProxy], args: by.other},
	}, by)
	t.Cleanup(func() { exchange(whole, nil) })
}

// shards returns status.shards of a VidraResource.
func (s spec) shards() []string {
	switch {
	case divided != shards:
		return nil
	case s.Shard == "":
		return []string{string(mainShard)}
	}
	return []string{string(otherShard)}
}

// installation returns the installation of a VidraResource.
func (s spec) installation() v1alpha1.Installation {
	if divided == installations {
		return v1alpha1.Installation(s.Shard)
	}
	return ""
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
