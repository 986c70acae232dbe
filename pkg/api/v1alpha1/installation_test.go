package v1alpha1

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestParseInstallation(t *testing.T) {
	cases := map[string]struct {
		reason string
		name   string
		ok     bool
	}{
		"None":      {"It is the default installation.", "", true},
		"Label":     {"It is a DNS label.", "east-1", true},
		"Longest":   {"A DNS label has 63 characters at most.", strings.Repeat("a", 63), true},
		"Too long":  {"It is no label.", strings.Repeat("a", 64), false},
		"Dots":      {"The default installation may have a VidraResource of the same name and suffix.", "a.b", false},
		"Mark":      {"It separates the installation from the name.", "a@b", false},
		"Uppercase": {"A domain has none.", "East", false},
		"Default":   {"Messages call the other one so.", "default", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			parsed, err := ParseInstallation(tc.name)
			if !tc.ok {
				require.Error(t, err, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.name, string(parsed), tc.reason)
		})
	}
}

// TestInstallationsShareNoName requires that no two pairs of an installation and a
// VidraResource have the same field manager, owner annotation or finalizer.
func TestInstallationsShareNoName(t *testing.T) {
	long := strings.Repeat("long-name.", 25) + "end"
	names := []string{
		"web", "web-east", "east", "east.web", strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 58), strings.Repeat("a", 116), strings.Repeat("a", 122), long, long[:len(long)-1] + "x",
	}
	installations := []Installation{"", "east", "west", "web", Installation(strings.Repeat("a", 63)), Installation(strings.Repeat("a", 62) + "b")}
	for _, i := range installations { // names that are what others are shortened to
		for _, name := range []string{long, strings.Repeat("a", 64)} {
			chosen, _ := ParseFieldManager(i.FieldManager(name))
			_, key, _ := strings.Cut(i.OwnerAnnotationKey(name), "/")
			names = append(names, chosen, key)
		}
	}
	managers, keys := map[string]string{}, map[string]string{}
	for _, i := range installations {
		require.Empty(t, validation.IsQualifiedName(i.Finalizer()))
		for _, name := range names {
			manager, key, pair := i.FieldManager(name), i.OwnerAnnotationKey(name), name+"@"+string(i)
			require.Empty(t, metavalidation.ValidateFieldManager(manager, field.NewPath("fieldManager")), pair)
			require.Empty(t, validation.IsQualifiedName(key), pair)
			for found, all := range map[string]map[string]string{manager: managers, key: keys} {
				if other, taken := all[found]; taken {
					require.Equal(t, other, pair, found)
				}
				all[found] = pair
			}
			require.True(t, i.Applies(manager), pair)
			_, of := ParseFieldManager(manager)
			require.Equal(t, i, of, "also where the name was shortened")
			require.True(t, IsOwnerAnnotation(key), pair)
			require.Equal(t, []string{name}, Owners(map[string]string{key: name}), pair)
		}
	}
	require.Equal(t, "vidra/web@east", Installation("east").FieldManager("web"))
	require.Equal(t, "vidra/web", FieldManager("web"), "an upgrade writes nothing")
}

func TestHeldByAnother(t *testing.T) {
	cases := map[string]struct {
		reason     string
		finalizers []string
		want       Installation
		held       bool
	}{
		"None":    {"It is new.", nil, "", false},
		"Own":     {"It is ours.", []string{"east." + Finalizer}, "", false},
		"Default": {"The default installation has it.", []string{Finalizer}, "", true},
		"Other":   {"Another one has it, too.", []string{"east." + Finalizer, "west." + Finalizer}, "west", true},
		"Foreign": {"It is of another program.", []string{"example.com/finalizer", "my" + Finalizer}, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			vr := &VidraResource{}
			vr.Finalizers = tc.finalizers
			other, held := Installation("east").HeldByAnother(vr)
			require.Equal(t, tc.held, held, tc.reason)
			require.Equal(t, tc.want, other, tc.reason)
		})
	}
}
