package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestGoesWith says which objects are deleted with a Namespace or a definition.
func TestGoesWith(t *testing.T) {
	t.Parallel()
	id := func(group, kind, namespace, name string) object.Identity {
		return object.Identity{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespace: namespace, Name: name}
	}
	key := func(group, resource string) trigger.ObjectKey {
		return trigger.ObjectKey{GVR: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Name: "one"}
	}
	shop, definition := id("", "Namespace", "", "shop"), id(object.CRDKind.Group, object.CRDKind.Kind, "", "things.example.com")
	cases := map[string]struct {
		reason    string
		container object.Identity
		id        object.Identity
		key       trigger.ObjectKey
		want      bool
	}{
		"In the Namespace":     {"It goes.", shop, id("", "ConfigMap", "shop", "one"), key("", "configmaps"), true},
		"In another":           {"It stays.", shop, id("", "ConfigMap", "bank", "one"), key("", "configmaps"), false},
		"In none":              {"It stays.", shop, id("", "PersistentVolume", "", "one"), key("", "persistentvolumes"), false},
		"Of the kind":          {"It goes.", definition, id("example.com", "Thing", "shop", "one"), key("example.com", "things"), true},
		"Of another kind":      {"It stays.", definition, id("example.com", "Other", "shop", "one"), key("example.com", "others"), false},
		"Of another group":     {"It stays.", definition, id("more.example.com", "Thing", "shop", "one"), key("more.example.com", "things"), false},
		"Of an unknown kind":   {"It may go.", definition, id("example.com", "Thing", "shop", "one"), trigger.ObjectKey{}, true},
		"Of an unknown group":  {"It stays.", definition, id("other.com", "Thing", "shop", "one"), trigger.ObjectKey{}, false},
		"With something plain": {"It stays.", id("", "ConfigMap", "shop", "shop"), id("", "ConfigMap", "shop", "one"), key("", "configmaps"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, GoesWith(tc.container, tc.id, tc.key), tc.reason)
		})
	}
}

// TestMembers: members are found by their container, the first by its name, so that a message stays the same.
func TestMembers(t *testing.T) {
	t.Parallel()
	id := func(name string) object.Identity {
		return object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: name}
	}
	shop, bank := object.Identity{GroupKind: object.NamespaceKind, Name: "shop"}, object.Identity{GroupKind: object.NamespaceKind, Name: "bank"}
	m := &Members{}
	_, found := m.Kept.In(shop)
	require.False(t, found)
	_, found = m.Undecided.In(shop)
	require.False(t, found)
	_, found = m.Needed.In(shop)
	require.False(t, found)

	for _, name := range []string{"c", "a", "b"} {
		m.Kept.Add(id("kept-"+name), trigger.ObjectKey{})
		m.Undecided.Add(id("undecided-"+name), trigger.ObjectKey{})
		m.Needed.Add(id("needed-"+name), trigger.ObjectKey{})
	}
	for range 20 { // the order of a map is random
		kept, found := m.Kept.In(shop)
		require.True(t, found)
		require.Equal(t, id("kept-a"), kept)
		undecided, found := m.Undecided.In(shop)
		require.True(t, found)
		require.Equal(t, id("undecided-a"), undecided)
		needed, found := m.Needed.In(shop)
		require.True(t, found)
		require.Equal(t, id("needed-a"), needed)
	}
	_, found = m.Decided().Undecided.In(shop)
	require.False(t, found)
	_, found = m.Decided().Needed.In(shop)
	require.True(t, found)
	_, found = m.Kept.In(bank)
	require.False(t, found)
	_, found = m.Undecided.In(bank)
	require.False(t, found)
}
