package source

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestKeptBytes: former revisions are kept up to a number of bytes, the newest first, each whole or not at all. The bytes are random, so
// that compression makes none less.
func TestKeptBytes(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset() // it holds Secrets; semantics of the API server play no role
	kept := &Kept{Secrets: client.CoreV1(), Namespace: "vidra-system"}
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "1-2-3"}}
	revisions, text := map[string]bool{}, make([]byte, 3<<20)
	_, _ = rand.Read(text) // it never fails
	for i := range 5 {
		text[0] = byte(i)
		revision := fmt.Sprint("revision-", i)
		digest := hex.EncodeToString([]byte(revision)) + "-digest"
		digest = digest[len(digest)-14:]
		require.NoError(t, kept.Save(t.Context(), vr, Manifest{Digest: digest, Revision: revision, Text: text}, revisions, false))
		revisions[revision] = true
	}
	all, err := kept.Load(t.Context(), vr, "")
	require.NoError(t, err)
	var first []byte
	for manifest := range all {
		require.Len(t, manifest, len(text), "whole")
		first = append(first, manifest[0])
	}
	require.Equal(t, []byte{4, 3, 2}, first)
	require.NoError(t, kept.Retain(t.Context(), vr, map[string]bool{"revision-3": true}))
	all, err = kept.Load(t.Context(), vr, "")
	require.NoError(t, err)
	first = nil
	for manifest := range all {
		first = append(first, manifest[0])
	}
	require.Equal(t, []byte{3}, first)
	all, err = kept.Load(t.Context(), vr, "revision-2")
	require.NoError(t, err)
	for range all {
		require.Fail(t, "the revision is not kept")
	}
}

// TestKeptAgain: a manifest that returns is the last one again, as one of a variable that has its former value, whatever the clocks of the leaders show.
func TestKeptAgain(t *testing.T) {
	t.Parallel()
	kept := &Kept{Secrets: fake.NewClientset().CoreV1(), Namespace: "vidra-system"} // it holds Secrets; semantics of the API server play no role
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "1-2-3"}}
	all := map[string]bool{"first": true, "second": true}
	for _, revision := range []string{"first", "second", "first"} {
		require.NoError(t, kept.Save(t.Context(), vr, Manifest{Digest: revision + "-as-a-digest", Revision: revision, Text: []byte(revision)}, all, false))
	}
	order := func() (order []string) {
		texts, err := kept.Load(t.Context(), vr, "")
		require.NoError(t, err)
		for text := range texts {
			order = append(order, string(text))
		}
		return order
	}
	require.Equal(t, []string{"first", "second"}, order())

	// The clock of the former leader was ahead.
	secrets := kept.Secrets.Secrets(kept.Namespace)
	list, err := secrets.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		s := &list.Items[i]
		since, err := time.Parse(time.RFC3339Nano, s.Annotations[keptSince])
		require.NoError(t, err)
		s.Annotations[keptSince] = since.Add(time.Hour).Format(time.RFC3339Nano)
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	third := Manifest{Digest: "third-as-a-digest", Revision: "third", Text: []byte("third")}
	require.NoError(t, kept.Save(t.Context(), vr, third, all, false))
	require.Equal(t, []string{"third", "first", "second"}, order())
}
