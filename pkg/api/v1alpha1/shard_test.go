package v1alpha1

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestParseShard(t *testing.T) {
	cases := map[string]struct {
		reason, selector string
		want             Shard
		name             string
		ok               bool
	}{
		"None":        {"It is no shard.", "", "", "", true},
		"Value":       {"The name has it.", "key=shard1", "key=shard1", "shard1-", true},
		"Equal":       {"It is the same selector.", "key==shard1", "key=shard1", "shard1-", true},
		"In":          {"So is this.", "key in (shard1)", "key=shard1", "shard1-", true},
		"Order":       {"Neither the order nor a repetition counts.", "b in (y,x), a=1,a = 1", "a=1,b in (x,y)", "shard-", true},
		"Not":         {"One value is one value.", "key notin (a)", "key!=a", "shard-", true},
		"Missing":     {"The main shard of Flux.", "!sharding.fluxcd.io/key", "!sharding.fluxcd.io/key", "shard-", true},
		"Capitals":    {"A Lease has none.", "key=Shard_1.", "", "", false},
		"Capitals in": {"A Lease has none.", "key=Shard_1.A", "key=Shard_1.A", "shard-1-a-", true},
		"Long":        {"The label has 63 characters.", "key=" + strings.Repeat("a", 63), Shard("key=" + strings.Repeat("a", 63)), strings.Repeat("a", 40) + "-", true},
		"Two words":   {"It is none.", "a b", "", "", false},
		"Bad key":     {"It is none.", "-a=b", "", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := ParseShard(tc.selector)
			if !tc.ok {
				require.ErrorContains(t, err, "is no label selector", tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, s, tc.reason)
			require.True(t, strings.HasPrefix(s.Name(), tc.name), s.Name())
			again, err := ParseShard(string(s))
			require.NoError(t, err)
			require.Equal(t, s, again, "it is canonical")
			if s == "" {
				require.Empty(t, Installation("east").ShardLabelKey(s))
				return
			}
			require.Empty(t, validation.IsDNS1123Label(s.Name()))
			for _, i := range []Installation{"", "east"} {
				key := i.ShardLabelKey(s)
				require.Empty(t, validation.IsQualifiedName(key))
				require.True(t, IsShardLabel(key))
				require.True(t, i.IsShardLabel(key))
				require.False(t, Installation("west").IsShardLabel(key))
			}
		})
	}
	require.NotEqual(t, Shard("a=x").Name(), Shard("b=x").Name(), "two shards have two names")
}

func TestShardsOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		labels map[string]string
		listed []string
		own    Shard
		want   []string
	}{
		"None":         {"No operator has the flag.", nil, nil, "", nil},
		"New":          {"The own one.", map[string]string{"k": "1"}, nil, "k=1", []string{"k=1"}},
		"Moved":        {"The one before does not match.", map[string]string{"k": "2"}, []string{"k=1"}, "k=2", []string{"k=2"}},
		"Overlap":      {"Both match.", map[string]string{"k": "1"}, []string{"k"}, "k=1", []string{"k", "k=1"}},
		"Other way":    {"The other operator finds the same.", map[string]string{"k": "1"}, []string{"k=1"}, "k", []string{"k", "k=1"}},
		"Unsharded":    {"It keeps the label of the shard.", map[string]string{"k": "1"}, []string{"k=1"}, "", []string{"k=1"}},
		"Left to all":  {"No shard is left.", nil, []string{"k=1"}, "", nil},
		"Forged":       {"It is no selector in its canonical form.", map[string]string{"k": "1"}, []string{"a b", "", "k in (1)", "k=1"}, "k=1", []string{"k=1"}},
		"Forged often": {"They are bounded.", map[string]string{"k": "1"}, []string{"!a", "!b", "!c", "!d", "!e", "!f", "!g", "!h", "!i"}, "k=1", []string{"!a", "!b", "!c", "!d", "!e", "!f", "!g", "k=1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			vr := &VidraResource{}
			vr.Labels, vr.Status.Shards = tc.labels, tc.listed
			require.Equal(t, tc.want, ShardsOf(vr, tc.own), tc.reason)
		})
	}
}
