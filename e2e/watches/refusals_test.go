package watches

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// atOnce fails the test if f, which must not wait for any server, takes longer
// than it can take on a busy machine.
func atOnce(t *testing.T, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	assert.Less(t, time.Since(start), 2*time.Second, "%s does not wait", what)
}

// grant lets a user list and watch resources, and returns when the API server
// knows it.
func grant(t *testing.T, user string, resources ...schema.GroupVersionResource) {
	t.Helper()
	gvr := resources[0]
	meta := metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", user, gvr.Resource)}
	role := &rbacv1.ClusterRole{ObjectMeta: meta}
	for _, gvr := range resources {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}, Verbs: []string{"list", "watch"},
		})
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, obj := range []client.Object{role, binding} {
		require.NoError(t, admin.Create(t.Context(), obj))
		t.Cleanup(func() { _ = admin.Delete(context.Background(), obj) })
	}
	await(t, func(c *assert.CollectT) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: gvr.Group, Resource: gvr.Resource},
		}}
		require.NoError(c, admin.Create(context.Background(), review))
		assert.True(c, review.Status.Allowed)
	})
}

// TestF01ForbiddenKindBlocksNobody: a kind that may not be listed took a worker
// for 30 seconds, at every pass, for ever. Here no caller waits for it: not its
// owner, not the other kinds. It is asked for less and less often, but at once
// when another watch's recovery says that something was fixed.
func TestF01ForbiddenKindBlocksNobody(t *testing.T) {
	t.Parallel()
	user := unique(t)
	config, err := env.UserConfig(user)
	require.NoError(t, err)
	grant(t, user, secrets.GVR)
	grant(t, user, services.GVR)
	l := newLab(t, labOptions{config: config})
	keys := []watchregistry.Key{configMaps, secrets, services}
	forbidden := faultproxy.Match{Verb: "watch", Resource: configMaps.GVR}

	atOnce(t, "Sync", func() { l.Sync(owner("one"), keys) })
	l.becomes(t, configMaps, watchregistry.Degraded)
	require.Equal(t, watchregistry.ReasonForbidden, l.watch(configMaps).Reason)
	l.synced(t, keys[1:])
	for _, key := range keys[1:] {
		require.Less(t, l.watch(key).SyncTook, 5*time.Second, "it does not wait for the other")
	}

	mark := l.Mark()
	const most = 3 // after 1 s, after 2 s more, and one that may be woken
	require.Never(t, func() bool {
		atOnce(t, "Sync", func() { l.Sync(owner("one"), keys) })
		return len(l.Requests(mark, forbidden)) > most
	}, 3*time.Second, 20*time.Millisecond, "neither time nor passes make it ask often")
	await(t, func(c *assert.CollectT) { assert.GreaterOrEqual(c, len(l.Requests(0, forbidden)), 4) })

	asked := l.Requests(0, forbidden)
	grant(t, user, configMaps.GVR)
	require.Equal(t, 1, l.ErrorStreams(faultproxy.Match{Resource: secrets.GVR}, apierrors.NewInternalError(assert.AnError)))
	l.becomes(t, configMaps, watchregistry.Synced)
	again := l.Requests(0, forbidden)[len(asked)]
	require.Less(t, again.Time.Sub(asked[len(asked)-1].Time), 8*time.Second, "the recovery of secrets wakes it: by itself it waits for longer")
}

// TestF04WaveOf401: rotated credentials had the API server answer 401 to
// everything for a while, and that was the end of the engine, which waited for
// itself. Here every watch recovers when the wave is over, whether it ran before
// or was asked for meanwhile, and knows what was changed in between.
func TestF04WaveOf401(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	running, late := builtIn(8)[:6], builtIn(8)[6:]
	l.Sync(owner("one"), running)
	kept, doomed := l.configMap(t, "kept"), l.configMap(t, "doomed")
	l.synced(t, running)
	await(t, func(c *assert.CollectT) { assert.True(c, l.knows(configMaps, kept) && l.knows(configMaps, doomed)) })
	for _, key := range running { // after a LIST, the watch is Synced before its stream begins
		await(t, func(c *assert.CollectT) { assert.NotZero(c, l.Streams(faultproxy.Match{Resource: key.GVR})) })
	}

	unauthorized := apierrors.NewUnauthorized("the credentials were rotated")
	wave := l.Inject(faultproxy.Match{}, faultproxy.Status(unauthorized))
	mark := l.Mark()
	require.Equal(t, 1, l.ErrorStreams(faultproxy.Match{Resource: running[0].GVR}, unauthorized))
	require.GreaterOrEqual(t, l.CutStreams(faultproxy.Match{}), len(running)-1)
	atOnce(t, "Ensure", func() { l.Ensure(owner("two"), late) })
	edit(t, kept)
	require.NoError(t, admin.Delete(t.Context(), doomed))
	born := l.configMap(t, "born")
	for _, key := range builtIn(8) {
		await(t, func(c *assert.CollectT) {
			assert.GreaterOrEqual(c, len(l.Requests(mark, faultproxy.Match{Resource: key.GVR})), 4, "it tries again and again")
		})
		require.Equal(t, watchregistry.Degraded, l.watch(key).State)
	}

	wave.Remove()
	over := time.Now()
	l.synced(t, builtIn(8))
	for _, key := range builtIn(8) {
		require.EqualValues(t, 1, l.watch(key).InformerRuns, "its informer has lived on")
	}
	require.Less(t, time.Since(over), 10*time.Second)
	await(t, func(c *assert.CollectT) {
		deleted, _ := l.gone(configMaps, doomed)
		assert.Equal(c, 1, deleted)
		assert.True(c, l.knows(configMaps, kept), "what was edited meanwhile")
		assert.True(c, l.knows(configMaps, born), "what was created meanwhile")
	})
}

// TestF05BrokenConversionWebhook: one kind whose objects could not be converted
// kept every kind from being synced. Here it is Degraded alone, and followed once
// it is fixed. What ran before goes on: the API server reports to it nothing of the
// object that it cannot convert.
func TestF05BrokenConversionWebhook(t *testing.T) {
	t.Parallel()
	running, starting := newLab(t, labOptions{}), newLab(t, labOptions{})
	crd, stored := newCRD(t, unique(t), "v1", "v2")
	converted := stored
	converted.GVR.Version = "v2"
	running.Sync(owner("one"), []watchregistry.Key{converted, stored, configMaps})
	running.synced(t, []watchregistry.Key{converted, stored, configMaps})

	unreachable := "https://127.0.0.1:1/convert"
	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &unreachable},
				ConversionReviewVersions: []string{"v1"},
			},
		}
	})
	thing, cm := starting.thing(t, crd, "unconvertible"), running.configMap(t, "other")
	starting.Sync(owner("one"), []watchregistry.Key{converted, stored, configMaps})
	starting.becomes(t, converted, watchregistry.Degraded)
	require.Equal(t, watchregistry.ReasonUnavailable, starting.watch(converted).Reason)
	await(t, func(c *assert.CollectT) {
		assert.Contains(c, starting.watch(converted).Message, unreachable, "the API server's error says whom it cannot reach")
	})
	starting.synced(t, []watchregistry.Key{stored, configMaps})
	require.True(t, starting.keeps(stored, thing))
	await(t, func(c *assert.CollectT) { assert.True(c, running.keeps(configMaps, cm)) })

	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	})
	other := running.thing(t, crd, "convertible")
	await(t, func(c *assert.CollectT) {
		assert.True(c, starting.keeps(converted, thing), "what it could not convert before")
		assert.True(c, running.keeps(converted, other))
	})
}

// TestF05ExpiredContinueToken: the token for the next page of a LIST expired
// when the pages before it took long, and every kind waited for ever. Here the
// API server refuses it once, and the kind is synced all the same.
func TestF05ExpiredContinueToken(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	crd, key := newCRD(t, unique(t))
	const things = 501 // client-go asks for pages of 500
	l.thing(t, crd, "thing-0")
	var all errgroup.Group
	all.SetLimit(16)
	for i := range things - 1 {
		obj := l.newThing(crd, fmt.Sprintf("thing-%d", i+1))
		all.Go(func() error { return admin.Create(t.Context(), obj) })
	}
	require.NoError(t, all.Wait())

	list, watch := faultproxy.Match{Verb: "list", Resource: key.GVR}, faultproxy.Match{Verb: "watch", Resource: key.GVR}
	expired := faultproxy.Status(apierrors.NewResourceExpired("it is too old"))
	// A list is not streamed, comes in pages if it does not come from the cache of
	// the API server, and its second page has expired. The newest rule comes first.
	l.Inject(watch, faultproxy.Status(apierrors.NewBadRequest("no streamed lists")).Times(1))
	page := l.Inject(list, expired.Times(1))
	l.Inject(list, faultproxy.Fault{}.Times(1))
	l.Inject(list, expired.Times(1))
	l.Sync(owner("one"), []watchregistry.Key{key, configMaps})
	l.becomes(t, configMaps, watchregistry.Synced)
	l.becomes(t, key, watchregistry.Synced)
	require.Equal(t, 1, page.Hits())
	require.EqualValues(t, things, l.watch(key).Objects)
	pages := 0
	for _, request := range l.Requests(0, list) {
		if request.Query.Get("continue") != "" {
			pages++
		}
	}
	require.Equal(t, 1, pages, "the page that was refused, after which the whole list is asked for")
}

// TestF12StartFailsAtFirst: a watch was noted as started before it was, its start
// failed, and it was never tried again. Here it is watched once that works, with
// no other call.
func TestF12StartFailsAtFirst(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		spoil  func(l *lab)
		fix    func(l *lab) error
	}{
		"500": {
			reason: "what the reflector gets is an error, at LIST and at WATCH",
			spoil: func(l *lab) {
				for _, key := range []watchregistry.Key{configMaps, secrets} {
					l.Inject(faultproxy.Match{Resource: key.GVR}, faultproxy.Status(apierrors.NewInternalError(assert.AnError)).Times(4))
				}
			},
		},
		"refused": {
			reason: "the server is not there when the registry begins",
			spoil:  func(l *lab) { l.Down() },
			fix:    func(l *lab) error { return l.Up() },
		},
		"cut": {
			reason: "the connection breaks in the middle of the first list, and in that of the next",
			spoil: func(l *lab) {
				l.Inject(faultproxy.Match{Resource: secrets.GVR}, faultproxy.CutAfter(20).Times(4))
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			cm := l.configMap(t, "one")
			tt.spoil(l)
			statuses := l.Sync(owner("one"), []watchregistry.Key{configMaps, secrets})
			require.Equal(t, watchregistry.Starting, statuses[secrets].State, "it has not started yet, and no error says so")
			await(t, func(c *assert.CollectT) { // it may be over already
				assert.Contains(c, l.states("one", secrets), watchregistry.Degraded)
			})
			if tt.fix != nil {
				require.NoError(t, tt.fix(l))
			}
			start := time.Now()
			l.synced(t, []watchregistry.Key{configMaps, secrets})
			require.Less(t, time.Since(start), 10*time.Second, tt.reason)
			require.True(t, l.knows(configMaps, cm))
		})
	}
}
