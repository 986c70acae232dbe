package watches

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// TestF24WatchClosesEarly: where every watch ends at once, client-go takes that for a
// failure, lists everything anew, and waits up to a minute between two attempts. Here
// the watch is resumed about once a second, and what is edited is known soon, whether
// something happens all the time or nothing for long.
func TestF24WatchClosesEarly(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string]int{"Quiet": 1, "Busy": 6} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			cm := l.configMap(t, "one")
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			l.settles(t, configMaps)
			mark, start := l.Mark(), time.Now()
			rule := l.Inject(requests("watch", configMaps), faultproxy.CloseAfter(50*time.Millisecond))
			l.CloseStreams(requests("watch", configMaps))
			hit(t, rule, 6/edits)
			for range edits {
				edit(t, cm)
				edited := time.Now()
				l.agrees(t)
				require.Less(t, time.Since(edited), 20*time.Second, "client-go would wait for up to a minute")
			}
			hit(t, rule, 6)
			l.aboutOnceASecond(t, mark, start, 3)
			require.Empty(t, l.lists(mark, configMaps), "it is resumed where it was")
			require.Equal(t, []watchregistry.State{watchregistry.Synced}, l.states("one", configMaps))
		})
	}
}

// TestF24StreamedListClosesEarly is the same for the list that a watch begins with,
// which can never be had like that: it is asked for plainly.
func TestF24StreamedListClosesEarly(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	cm := l.configMap(t, "one")
	l.Inject(requests("watch", configMaps), faultproxy.CloseAfter(0).Times(1))
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	l.becomes(t, configMaps, watchregistry.Synced)
	l.agrees(t)
	edit(t, cm)
	l.agrees(t)
}

// TestF24CutMidBody: an answer that broke off in the middle was taken for its end, or
// made the engine list everything anew. Here the bytes of a stream end in the middle
// again and again; it is resumed where it was.
func TestF24CutMidBody(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	cm := l.configMap(t, "one")
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	l.settles(t, configMaps)
	mark, start := l.Mark(), time.Now()
	for range 4 {
		running := func(c *assert.CollectT) { assert.Equal(c, 1, l.Streams(requests("watch", configMaps))) }
		await(t, running)
		require.Equal(t, 1, l.CutStreams(requests("watch", configMaps)))
		edit(t, cm)
		l.agrees(t)
	}
	l.aboutOnceASecond(t, mark, start, 3)
	require.Empty(t, l.lists(mark, configMaps))
	require.Equal(t, []watchregistry.State{watchregistry.Synced}, l.states("one", configMaps), "no owner is told of what is usual")
}

// TestF24ListCutMidBody is the same for lists: what had not arrived of one was taken
// for deleted. Here a watch that has to list anew gets the beginning of the list a few
// times, and reports no deletion.
func TestF24ListCutMidBody(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"List": true, "StreamedList": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			var cm *corev1.ConfigMap
			for i := range 20 {
				cm = l.configMap(t, fmt.Sprint(i))
			}
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			l.settles(t, configMaps)
			const aFewOfThem, times = 3000, 3 // bytes
			cut := l.Inject(faultproxy.Match{Resource: configMaps.GVR}, faultproxy.CutAfter(aFewOfThem).Times(times))
			if plain {
				l.notStreamed(configMaps, 1)
			}
			l.ErrorStreams(requests("watch", configMaps), expired())
			hit(t, cut, times)
			edit(t, cm)
			l.agrees(t)
			l.becomes(t, configMaps, watchregistry.Synced)
			l.note(func() { assert.Empty(t, l.deleted) })
		})
	}
}

// TestF24Throttled: an API server that said 429 was asked again earlier than it had
// said, and throttled more. Here every request waits for as long as it says, even if
// an owner asks for the watch meanwhile.
func TestF24Throttled(t *testing.T) {
	t.Parallel()
	const seconds = 2
	throttled := apierrors.NewTooManyRequests("later", seconds)
	answer := faultproxy.Status(throttled).Times(2)
	tests := map[string]struct {
		reason  string
		running bool
		// begin has n requests of a verb throttled, or a stream that is running.
		begin func(l *lab)
		verb  string
		n     int
	}{
		"List": {"When it begins to list.", false, func(l *lab) {
			l.Inject(requests("list", configMaps), answer)
			l.notStreamed(configMaps, 1)
		}, "list", 2},
		"StreamedList": {"The same for a list that is streamed.", false, func(l *lab) { l.Inject(requests("watch", configMaps), answer) }, "watch", 2},
		"ResumedWatch": {"When it goes on.", true, func(l *lab) {
			l.Inject(requests("watch", configMaps), answer)
			l.CloseStreams(requests("watch", configMaps))
		}, "watch", 2},
		"Event": {"In the middle of a stream.", true, func(l *lab) {
			l.ErrorStreams(requests("watch", configMaps), throttled)
		}, "watch", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			cm := l.configMap(t, "one")
			if tc.running {
				l.Sync(owner("one"), []watchregistry.Key{configMaps})
				l.settles(t, configMaps)
			}
			mark, last := l.Mark(), time.Now()
			tc.begin(l)
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			if tc.n == 0 {
				l.becomes(t, configMaps, watchregistry.Degraded)
			}
			asked := func(n int) {
				await(t, func(c *assert.CollectT) {
					require.GreaterOrEqual(c, len(l.Requests(mark, requests(tc.verb, configMaps))), n)
				})
			}
			asked(min(tc.n, 1)) // the stream has ended, so that the edit needs another one
			l.Sync(owner("two"), []watchregistry.Key{configMaps})
			asked(tc.n + 1)
			edit(t, cm)
			l.agrees(t)
			l.becomes(t, configMaps, watchregistry.Synced)
			sent := l.Requests(mark, requests(tc.verb, configMaps))
			if tc.n == 0 {
				require.GreaterOrEqual(t, sent[0].Time.Sub(last), seconds*time.Second, tc.reason)
			}
			for i := range tc.n {
				require.GreaterOrEqual(t, sent[i+1].Time.Sub(sent[i].Time), seconds*time.Second, tc.reason)
			}
			if tc.running {
				require.Empty(t, l.lists(mark, configMaps), "it resumes where it was")
			}
		})
	}
}

// secret creates a Secret that the lab watches.
func (l *lab) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: l.label + "-" + name, Labels: map[string]string{"test": l.label},
	}}
	require.NoError(t, admin.Create(t.Context(), secret))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), secret) })
	return secret
}

// everyBuiltIn are the watches of every resource that the API server has of itself.
func everyBuiltIn(t *testing.T) []watchregistry.Key {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(env.Config)
	require.NoError(t, err)
	_, groups, err := client.ServerGroupsAndResources()
	if !discovery.IsGroupDiscoveryFailedError(err) { // those of other tests may
		require.NoError(t, err)
	}
	var keys []watchregistry.Key
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		require.NoError(t, err)
		for _, resource := range group.APIResources {
			watchable := slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "watch")
			if watchable && (!strings.Contains(version.Group, ".") || strings.HasSuffix(version.Group, ".k8s.io")) {
				keys = append(keys, watchregistry.Key{GVR: version.WithResource(resource.Name)})
			}
		}
	}
	return keys
}

// TestF24Restart: after a restart of the API server, every watch listed everything at
// the same time, which brought it down again. Here all watches are Synced a few
// seconds after it is back, none lists anew, and what was edited meanwhile is known.
func TestF24Restart(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	kinds := everyBuiltIn(t)
	edited, deleted := l.configMap(t, "edited"), l.configMap(t, "deleted")
	secret := l.secret(t, "edited")
	l.Sync(owner("one"), kinds)
	l.settles(t, kinds...)

	mark := l.Mark()
	l.Down()
	for _, kind := range kinds {
		l.becomes(t, kind, watchregistry.Degraded)
	}
	edit(t, edited)
	edit(t, secret)
	require.NoError(t, admin.Delete(t.Context(), deleted))
	created := l.configMap(t, "created")
	require.NoError(t, l.Up())
	start := time.Now()
	for _, kind := range kinds {
		l.becomes(t, kind, watchregistry.Synced)
	}
	await(t, func(c *assert.CollectT) {
		assert.True(c, l.knows(configMaps, edited) && l.knows(configMaps, created) && l.knows(secrets, secret))
		gone, missed := l.gone(configMaps, deleted)
		assert.Equal(c, []int{1, 0}, []int{gone, missed})
	})
	took := time.Since(start)
	t.Logf("%d watches were synced %s after the API server was back", len(kinds), took.Round(time.Millisecond))
	require.Less(t, took, 25*time.Second)
	for _, kind := range kinds {
		require.Empty(t, l.lists(mark, kind), "%s is resumed where it was", kind)
	}
}
