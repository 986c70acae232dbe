package trigger

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestListing compares LISTs with what an owner expects of an object that it applied at version 100.
func TestListing(t *testing.T) {
	t.Parallel()
	terminating := configMap("red", "101")
	terminating.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	again := configMap("blue", "101")
	again.SetUID("u2")
	other := configMap("red", "101")
	other.SetName("other")
	loaded := appliedAt("blue", "")
	const listedAt = "200"
	cases := map[string]struct {
		reason    string
		expected  Applied
		namespace string
		listed    []*unstructured.Unstructured
		verify    bool
		removes   bool
		later     bool
		restored  bool
		want      map[ObjectKey]string
	}{
		"Echo":         {reason: "It is as it was applied.", listed: []*unstructured.Unstructured{configMap("blue", "100")}, verify: true},
		"Foreign":      {reason: "Another manager changed another field.", listed: []*unstructured.Unstructured{configMap("blue", "101")}, verify: true},
		"Edited":       {reason: "It was changed, and no event reported that.", listed: []*unstructured.Unstructured{configMap("red", "101")}, want: map[ObjectKey]string{key: "101"}},
		"Older":        {reason: "The page is older than the apply.", listed: []*unstructured.Unstructured{configMap("red", "99")}},
		"Terminating":  {reason: "Its deletion will be an event.", listed: []*unstructured.Unstructured{terminating}},
		"CreatedAgain": {reason: "It is another object with the same fields.", listed: []*unstructured.Unstructured{again}, want: map[ObjectKey]string{key: "101"}},
		"Missing":      {reason: "It was deleted, or lost its label.", listed: []*unstructured.Unstructured{other}, want: map[ObjectKey]string{key: ""}},
		"Removed":      {reason: "It is to be removed.", removes: true},
		"AppliedLater": {reason: "It was created after the LIST.", expected: appliedAt("blue", "201"), later: true},
		"Restored":     {reason: "The API server has lower versions than before.", expected: appliedAt("blue", "201"), listed: []*unstructured.Unstructured{configMap("red", "199")}, restored: true, want: map[ObjectKey]string{key: "199"}},
		"Elsewhere":    {reason: "The watch is of another namespace.", namespace: "stock"},
		"Here":         {reason: "The watch is of its namespace.", namespace: key.Namespace, want: map[ObjectKey]string{key: ""}},
		"FromStatus":   {reason: "A digest of a status may be forged.", expected: loaded, verify: true, listed: []*unstructured.Unstructured{configMap("blue", "99")}, want: map[ObjectKey]string{key: "99"}},
		"Unverified":   {reason: "There are limits to that.", expected: loaded, listed: []*unstructured.Unstructured{configMap("blue", "99")}},
		"EditedBefore": {reason: "What differs needs no limits.", expected: loaded, listed: []*unstructured.Unstructured{configMap("red", "99")}, want: map[ObjectKey]string{key: "99"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFactory(NewIndex())
			if tc.expected.Manager == "" {
				tc.expected = appliedAt("blue", "100")
			}
			apply := func() { f.index.Load(owner, map[ObjectKey]Applied{key: tc.expected}) }
			if !tc.later {
				apply()
			}
			if tc.removes {
				f.index.ExpectRemoval(owner, key)
			}
			for again := range 2 { // the second LIST does not know what the first one had
				if again == 1 && tc.later {
					break
				}
				page := &unstructured.UnstructuredList{}
				page.SetResourceVersion(listedAt)
				for _, u := range tc.listed {
					page.Items = append(page.Items, *u)
				}
				l := f.NewListing("", configMaps, tc.namespace, func() bool { return tc.verify })
				if tc.later {
					apply()
				}
				size := l.Page(page)
				require.Equal(t, tc.restored && again == 0, l.Restored())
				require.Equal(t, len(tc.listed) > 0, size > 0)
				l.End()
				causes := f.TakeCauses(owner)
				require.Equal(t, tc.want, causes.Suspects, tc.reason)
				require.Empty(t, causes.Objects, "a suspect is no drift yet")
			}
		})
	}
}

// TestListingInPages has an object in each page, while another owner applies a third one.
func TestListingInPages(t *testing.T) {
	t.Parallel()
	f := NewFactory(NewIndex())
	keyOf := func(i int) ObjectKey {
		return ObjectKey{GVR: configMaps, Namespace: key.Namespace, Name: "object-" + strconv.Itoa(i)}
	}
	known := map[ObjectKey]Applied{}
	for i := range 4 {
		known[keyOf(i)] = appliedAt("blue", "100")
	}
	f.index.Load(owner, known)
	f.index.Begin(owner, keyOf(2), manager)
	l := f.NewListing("", configMaps, "", func() bool { return false })
	for i, value := range []string{"blue", "red"} {
		u := configMap(value, "101")
		u.SetName(keyOf(i).Name)
		page := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*u}}
		page.SetResourceVersion("102")
		l.Page(page)
	}
	require.Equal(t, map[ObjectKey]string{keyOf(1): "101"}, f.TakeCauses(owner).Suspects, "what comes may be in the next page")
	l.End()
	require.Equal(t, map[ObjectKey]string{keyOf(3): ""}, f.TakeCauses(owner).Suspects)

	f.RequeueCauses(owner, Causes{Suspects: map[ObjectKey]string{keyOf(3): ""}})
	require.False(t, f.TakeCauses(owner).Empty(), "a reconcile that compares nothing keeps them")
}
