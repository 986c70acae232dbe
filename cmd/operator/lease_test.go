package main

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestHeldElsewhere(t *testing.T) {
	now := time.Now()
	lease := func(namespace, holder string, renewed time.Duration) coordinationv1.Lease {
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: now.Add(renewed)},
			},
		}
	}
	cases := map[string]struct {
		reason string
		lease  coordinationv1.Lease
		want   bool
	}{
		"Held":          {"Its holder renews it.", lease("other", "pod", -time.Second), true},
		"Own namespace": {"A replica holds it.", lease("own", "pod", -time.Second), false},
		"Released":      {"Its holder has ended.", lease("other", "", -time.Second), false},
		"Late":          {"The clocks may differ.", lease("other", "pod", -20*time.Second), true},
		"Behind":        {"The clock of its holder is behind by four minutes: renews decides.", lease("other", "pod", -4*time.Minute), true},
		"Future":        {"The clocks may differ.", lease("other", "pod", time.Minute), true},
		"Abandoned":     {"Its holder has crashed.", lease("other", "pod", -mostSkew-16*time.Second), false},
		"Long":          {"A duration beyond a minute is no Lease of Vidra.", longLease(lease("other", "pod", -mostSkew-61*time.Second)), false},
		"Empty":         {"Nobody has held it.", coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			looksHeld := heldElsewhere([]coordinationv1.Lease{lease("other", "", 0), tc.lease}, "own", now)
			require.Equal(t, tc.want, len(looksHeld) == 1, tc.reason)
		})
	}
}

func TestInstallationFlag(t *testing.T) {
	o := options{}
	fs := flag.NewFlagSet("operator", flag.ContinueOnError)
	fs.SetOutput(t.Output())
	o.bind(fs)
	require.Empty(t, o.installation)
	require.Equal(t, "vidra-operator.infrahub.operators.com", leaseName(o.installation, o.shard), "replicas of before an upgrade hold it")
	require.NoError(t, fs.Parse([]string{"--installation=east"}))
	require.Equal(t, "east.vidra-operator.infrahub.operators.com", leaseName(o.installation, o.shard), "two installations may share a namespace")
	require.Error(t, fs.Parse([]string{"--installation=East@1"}))
}

// TestShardFlag: equal selectors have one Lease, other ones another one, and an invalid one is refused.
func TestShardFlag(t *testing.T) {
	leaseOf := func(selector string) string {
		o := options{}
		fs := flag.NewFlagSet("operator", flag.ContinueOnError)
		fs.SetOutput(t.Output())
		o.bind(fs)
		require.NoError(t, fs.Parse([]string{"--watch-label-selector=" + selector}))
		return leaseName("east", o.shard)
	}
	one := leaseOf("sharding.fluxcd.io/key=shard1")
	require.Regexp(t, `^shard1-[0-9a-f]{8}\.shard\.east\.vidra-operator\.infrahub\.operators\.com$`, one)
	require.Equal(t, one, leaseOf("sharding.fluxcd.io/key in (shard1)"), "replicas of one shard share it")
	require.NotEqual(t, one, leaseOf("team=shard1"))
	require.NotEqual(t, one, leaseOf("!sharding.fluxcd.io/key"))
	require.Equal(t, "east."+leaderElectionID, leaseOf(""), "no selector is no shard")
	fs := flag.NewFlagSet("operator", flag.ContinueOnError)
	fs.SetOutput(t.Output())
	new(options).bind(fs)
	require.ErrorContains(t, fs.Parse([]string{"--watch-label-selector=a b"}), `"a b" is no label selector`)
}

func longLease(lease coordinationv1.Lease) coordinationv1.Lease {
	lease.Spec.LeaseDurationSeconds = ptr.To[int32](1 << 30)
	return lease
}

func TestIdentity(t *testing.T) {
	require.Equal(t, "vidra", accountIn(identityOf("host_1", "a-b", "vidra")))
	require.Equal(t, "a-b", accountIn(identityOf("host", "a-b", "")), "no ServiceAccount has that name")
}

// TestRenews: a Lease counts while its holder renews it by the clock of this operator, whatever times it has.
func TestRenews(t *testing.T) {
	start := time.Now()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", ResourceVersion: "1"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("pod"), LeaseDurationSeconds: ptr.To[int32](1 << 30), RenewTime: &metav1.MicroTime{Time: start.AddDate(100, 0, 0)},
		},
	}
	l := &installationLock{seen: map[string]heldLease{}}
	require.True(t, l.renews(lease, start))
	require.True(t, l.renews(lease, start.Add(abandonedAfter*longestLease-time.Second)))
	require.False(t, l.renews(lease, start.Add(abandonedAfter*longestLease+time.Second)))
	lease.ResourceVersion = "2"
	require.True(t, l.renews(lease, start.Add(time.Hour)), "it was renewed")
}
