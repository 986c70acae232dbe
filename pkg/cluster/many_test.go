package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// timedSecrets are secretsOf that note when they were listed last.
type timedSecrets struct {
	secretsOf

	listed time.Time
}

// List implements cache.Lister.
func (s *timedSecrets) List(opts metav1.ListOptions) (runtime.Object, error) {
	list, err := s.secretsOf.List(opts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = time.Now()
	return list, err
}

// replace replaces all Secrets while no WATCH is open: the informer lists them again.
func (s *timedSecrets) replace(present []corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present = present
	for _, w := range s.watchers {
		w.Action(watch.Error, &apierrors.NewResourceExpired("too old").ErrStatus)
	}
	s.watchers = nil
}

// sinceList returns the time since the last LIST.
func (s *timedSecrets) sinceList() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.listed)
}

// TestManyKubeconfigs has the kubeconfigs of many clusters listed, all of them changed before the next LIST, and removed before another
// one. Each takes at most a multiple of the time in which the same Secrets are parsed.
func TestManyKubeconfigs(t *testing.T) {
	const n, most = 500, 10
	server := func(i int) string { return fmt.Sprintf("https://cluster-%d.example", i) }
	all := func(token string) (all []corev1.Secret) {
		for i := range n {
			text := write(t, one(&clientcmdapi.Cluster{Server: server(i)}, &clientcmdapi.AuthInfo{Token: token}))
			all = append(all, corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("s-%d", i), ResourceVersion: token},
				Data:       map[string][]byte{"kubeconfig": []byte(text)},
			})
		}
		return all
	}
	second := all("2")
	began := time.Now()
	for _, secret := range second {
		_, err := toSource(&secret)
		require.NoError(t, err)
	}
	floor := time.Since(began)
	secrets := &timedSecrets{secretsOf: secretsOf{present: all("1")}}
	d := NewDestinations(DestinationsOptions{})
	d.secrets.source = secrets
	start(t, d)
	clusters := make([]*Cluster, n)
	for i := range clusters {
		c, err := d.Get(server(i))
		require.NoError(t, err)
		clusters[i] = c
	}
	settled := func(what string, check func(ct *assert.CollectT, r *route)) {
		t.Helper()
		require.EventuallyWithT(t, func(ct *assert.CollectT) {
			for _, c := range clusters {
				check(ct, c.remote.route.Load())
			}
		}, most*awaitTimeout, 20*awaitTick)
		took := secrets.sinceList()
		t.Logf("%s: %s, and %s to parse the Secrets", what, took, floor)
		require.Less(t, took, most*floor+time.Second)
	}
	has := func(token string) func(ct *assert.CollectT, r *route) {
		return func(ct *assert.CollectT, r *route) {
			require.NoError(ct, r.err)
			require.Equal(ct, token, r.access.user.Token)
		}
	}
	settled("listed", has("1"))
	secrets.replace(second)
	settled("changed", has("2"))
	secrets.replace(nil)
	settled("removed", func(ct *assert.CollectT, r *route) { require.ErrorIs(ct, r.err, ErrUnmatched) })
}
