package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func TestNamesThatTheAPIServerAccepts(t *testing.T) {
	long := strings.Repeat("long-name.", 25) + "end"
	require.Len(t, long, validation.DNS1123SubdomainMaxLength)
	for _, name := range []string{"web", strings.Repeat("a", 63), strings.Repeat("a", 64), long} {
		require.Empty(t, metavalidation.ValidateFieldManager(FieldManager(name), field.NewPath("fieldManager")), name)
		require.Empty(t, validation.IsQualifiedName(OwnerAnnotationKey(name)), name)
	}
	other := long[:len(long)-1] + "x"
	require.NotEqual(t, FieldManager(long), FieldManager(other), "names that differ at the end stay different")
	require.NotEqual(t, OwnerAnnotationKey(long), OwnerAnnotationKey(other))

	// A name may be chosen that is what another one is shortened to.
	chosen := strings.TrimPrefix(FieldManager(long), FieldManagerPrefix)
	require.Empty(t, validation.IsDNS1123Subdomain(chosen))
	require.NotEqual(t, FieldManager(long), FieldManager(chosen))
	_, chosen, _ = strings.Cut(OwnerAnnotationKey(long), "/")
	require.NotEqual(t, OwnerAnnotationKey(long), OwnerAnnotationKey(chosen))
	for _, name := range []string{"web-0123456789abcdef", strings.Repeat("a", 122), strings.Repeat("a", 63)} {
		require.Equal(t, FieldManagerPrefix+name, FieldManager(name), "the name needs no change")
	}
}

func TestOwners(t *testing.T) {
	cases := map[string]struct {
		reason      string
		annotations map[string]string
		want        []string
	}{
		"None":   {reason: "Most objects have no owner.", annotations: map[string]string{"a": "b"}, want: []string{}},
		"Ours":   {"Each owner has a key of its own.", map[string]string{OwnerAnnotationKey("b"): "b", OwnerAnnotationKey("a"): "a"}, []string{"a", "b"}},
		"Legacy": {"The first operator wrote a list.", map[string]string{OwnerAnnotation: "b, a,"}, []string{"a", "b"}},
		"Both":   {"An object that was taken over has both.", map[string]string{OwnerAnnotation: "a", OwnerAnnotationKey("a"): "a"}, []string{"a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.ElementsMatch(t, tc.want, Owners(tc.annotations), tc.reason)
		})
	}
}

func TestDefaults(t *testing.T) {
	vr := &VidraResource{}
	require.True(t, vr.WatchesEvents())
	require.Equal(t, DefaultInterval, vr.ResyncInterval(0))
	require.Equal(t, time.Hour, vr.ResyncInterval(time.Hour), "the operator has another default")
	vr.Spec.Destination.ReconcileOnEvents = ptr.To(false)
	vr.Spec.Interval = &metav1.Duration{Duration: time.Minute}
	require.False(t, vr.WatchesEvents())
	require.Equal(t, time.Minute, vr.ResyncInterval(time.Hour))
}

// TestUnknownPolicies: a policy of a later version permits no deletion, as after a rollback of the operator.
func TestUnknownPolicies(t *testing.T) {
	deleted := func(policy DeletionPolicy) bool {
		vr := &VidraResource{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}}
		vr.Spec.DeletionPolicy = policy
		return !vr.Orphans()
	}
	require.True(t, deleted(""))
	require.True(t, deleted(DeletionDelete))
	require.False(t, deleted(DeletionOrphan))
	require.False(t, deleted("Archive"), "another version knows it")
}
