package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// randomManifest returns a manifest of ConfigMaps with random keys.
func randomManifest(r *rand.Rand) string {
	documents := []string{configMap("always", fmt.Sprint("v", r.IntN(5)))}
	for _, name := range []string{"one", "two", "three"} {
		if r.IntN(3) > 0 {
			text := configMap(name, fmt.Sprint("v", r.IntN(5)))
			for key := range 3 {
				if r.IntN(2) > 0 {
					text += fmt.Sprintf("  key-%d: \"%d\"\n", key, r.IntN(3))
				}
			}
			documents = append(documents, text)
		}
	}
	return manifests(documents...)
}

// specChanges change one field of the spec each. The namespaces are those that objects may be in.
var specChanges = map[string]func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, namespaces []string){
	"manifest": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) { s.Manifest = randomManifest(r) },
	"namespace": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, all []string) {
		s.Destination.Namespace = all[r.IntN(len(all))]
	},
	"server": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		s.Destination.ReconcileOnEvents = new(r.IntN(2) > 0)
	},
	"interval": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		s.Interval = &metav1.Duration{Duration: time.Duration(1+r.IntN(9)) * time.Hour}
	},
	"prune":   func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) { s.Prune = new(r.IntN(2) > 0) },
	"suspend": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) { s.Suspend = r.IntN(3) == 0 },
	"force":   func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) { s.Force = r.IntN(2) > 0 },
	"wait":    func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) { s.Wait = r.IntN(2) > 0 },
	"deletionPolicy": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		s.DeletionPolicy = pick(r, v1alpha1.DeletionOrphan, "Delete")
	},
	"account": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		s.ServiceAccountName = pick(r, "", "deployer")
	},
	"adopt": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		s.Adopt = pick(r, v1alpha1.AdoptAlways, v1alpha1.AdoptIfIdentical)
	},
	"contents": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		s.UnmanagedContents = pick(r, v1alpha1.UnmanagedBlock, v1alpha1.UnmanagedDelete)
	},
	"parts": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, all []string) {
		s.ManifestFrom = pick(r, nil, partOf(all[0]))
	},
	"mode": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		driftOf(s).Mode = pick(r, v1alpha1.DriftCorrect, v1alpha1.DriftWarn, v1alpha1.DriftIgnore)
	},
	"additions": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		driftOf(s).Additions = pick(r, v1alpha1.AdditionsKeep, v1alpha1.AdditionsWarn, v1alpha1.AdditionsRevert)
	},
	"ignore": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		driftOf(s).Ignore = pick(r, nil, []v1alpha1.IgnoreRule{{Paths: []string{"/data/greeting"}}})
	},
	"controllerFields": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		driftOf(s).ControllerFields = pick(r, "", v1alpha1.ControllerFieldsRevert)
	},
	"maxExposure": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		driftOf(s).MaxExposure = &metav1.Duration{Duration: time.Duration(1+r.IntN(9)) * time.Second}
	},
	"maxBreakGlass": func(r *rand.Rand, s *v1alpha1.VidraResourceSpec, _ []string) {
		driftOf(s).MaxBreakGlass = &metav1.Duration{Duration: time.Duration(1+r.IntN(9)) * time.Hour}
	},
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func driftOf(s *v1alpha1.VidraResourceSpec) *v1alpha1.DriftPolicy {
	if s.Drift == nil {
		s.Drift = &v1alpha1.DriftPolicy{}
	}
	return s.Drift
}

// partOf is a part of the manifest, in a namespace that does not change.
func partOf(namespace string) []v1alpha1.ManifestSource {
	return []v1alpha1.ManifestSource{{Kind: "ConfigMap", Namespace: namespace, Name: "part", Key: "m"}}
}

// TestSpecChangesAtAnyMoment changes random fields of a spec while the operator reconciles the one before, after a random number of reads
// of the VidraResource, which take a millisecond each. The objects are those of a fresh apply of the last spec, long before the next interval.
func TestSpecChangesAtAnyMoment(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	for run := range suite.Size(3, 60) {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(run))) //nolint:gosec // a test
			ns, other, fresh := newNamespace(t), newNamespace(t), newNamespace(t)
			namespaces := []string{ns, other}
			for _, in := range []string{ns, other, fresh} {
				newAccount(t, in, "deployer", "configmaps")
				for _, from := range []string{ns, other, fresh} { // an account removes the objects of the namespace before, and reads the part
					cluster.GrantTo(t, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: from, Name: "deployer"}, in,
						rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"}})
				}
			}
			require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "part"}, Data: map[string]string{"m": configMap("parted", "hello")},
			}))
			newVidraResource(t, ns, randomManifest(r), func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptAlways })
			changes := slices.Sorted(maps.Keys(specChanges))
			update := func(change func(s *v1alpha1.VidraResourceSpec)) {
				await(t, func(c *assert.CollectT) {
					v := getVidraResource(c, ns)
					change(&v.Spec)
					require.NoError(c, admin.Update(t.Context(), v))
				})
			}
			var done []string
			for range suite.Size(25, 60) {
				for range r.IntN(12) {
					getVidraResource(t, ns)
				}
				name := changes[r.IntN(len(changes))]
				done = append(done, name)
				update(func(s *v1alpha1.VidraResourceSpec) { specChanges[name](r, s, namespaces) })
			}
			update(func(s *v1alpha1.VidraResourceSpec) { // what keeps differences ends
				s.Suspend, s.Prune, s.Adopt, s.Wait, s.Destination.ReconcileOnEvents = false, new(true), v1alpha1.AdoptAlways, false, new(true)
				driftOf(s).Mode, driftOf(s).Ignore, driftOf(s).Additions = v1alpha1.DriftCorrect, nil, v1alpha1.AdditionsKeep
			})
			v := awaitReady(t, ns)
			spec := *v.Spec.DeepCopy()
			spec.Destination.Namespace, spec.DeletionPolicy = fresh, ""
			require.NoError(t, admin.Create(t.Context(), &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: fresh}, Spec: spec}))
			t.Cleanup(func() {
				require.NoError(t, client.IgnoreNotFound(deleteVidraResource(context.Background(), fresh)))
				awaitGone(t, vidraResourceOf(fresh, fresh, ""))
			})
			awaitReady(t, fresh)
			want := managedConfigMaps(t, fresh)
			require.NotEmpty(t, want)
			for _, in := range namespaces {
				if in == v.Spec.Destination.Namespace {
					require.Equal(t, want, managedConfigMaps(t, in), "%v", done)
				} else {
					require.Empty(t, managedConfigMaps(t, in), "%v", done)
				}
			}
		})
	}
}

// managedConfigMaps returns the data of the ConfigMaps of a namespace that VidraResources own.
func managedConfigMaps(t *testing.T, ns string) map[string]map[string]string {
	t.Helper()
	list, found := &corev1.ConfigMapList{}, map[string]map[string]string{}
	require.NoError(t, admin.List(t.Context(), list, client.InNamespace(ns), client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}))
	for _, cm := range list.Items {
		found[cm.Name] = cm.Data
		for key := range cm.Data {
			if managesKey(cm, beforeFirstApply, key) && !managesKey(cm, v1alpha1.FieldManagerPrefix, key) {
				delete(cm.Data, key)
			}
		}
	}
	return found
}

// beforeFirstApply is the field manager of the fields that an object had before it was adopted: its VidraResource had left it there, without prune.
const beforeFirstApply = "before-first-apply"

// managesKey reports whether a field manager with a prefix owns a key of a ConfigMap.
func managesKey(cm corev1.ConfigMap, prefix, key string) bool {
	return slices.ContainsFunc(cm.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return strings.HasPrefix(m.Manager, prefix) && strings.Contains(m.FieldsV1.GetRawString(), fmt.Sprintf("%q:{}", "f:"+key))
	})
}

// TestSpecChangesWhileTheStatusIsPostponed changes the spec while the watch does not show an object that was applied, for which the status
// waits: the change is applied at once.
//
// It is not parallel, because it stops the operator.
func TestSpecChangesWhileTheStatusIsPostponed(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	newVidraResource(t, ns, configMap("page", "v0"))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "v0"), "ConfigMap", "page")
	watches := faultproxy.Match{Verb: "watch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	require.NotZero(t, proxy.MuteStreams(watches))
	for i := 1; i < 12; i++ { // each change comes while the one before is awaited
		setManifest(t, ns, configMap("page", fmt.Sprint("v", i)))
		awaitSays(t, page, fmt.Sprint("v", i))
	}
	proxy.CutStreams(watches)
	awaitReady(t, ns)
	require.Equal(t, "v11", greeting(t, page))
}
